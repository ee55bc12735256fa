"""Arguments that a report gives as the command line that they stood in."""

from __future__ import annotations

import re
import shlex
from typing import Any

from doctor.intake.workload import launched
from doctor.probes.launch_arguments import parse_arguments

# Under these names people copy the line instead of its parts.
_LINES = ("command", "cmd", "args", "arguments", "launch_command", "cli", "extra_args", "flags")
_OPTION = re.compile(r"(?:^|\s)--?[a-z]", re.I)
_AT = "engine_args"


def typed(engine: str, stated: Any) -> dict[str, Any]:
    """Arguments of each line among the values, or of the whole if it is one; {} without any."""
    if isinstance(stated, (str, list)):
        return _of_line(engine, stated)
    table = stated if isinstance(stated, dict) else {}
    found: dict[str, Any] = {}
    for key, value in list(table.items())[:200]:
        if str(key).lower().replace("-", "_") in _LINES:
            found |= _of_line(engine, value)
    return found


def _of_line(engine: str, value: Any) -> dict[str, Any]:
    words = [str(item) for item in value[:400]] if isinstance(value, list) else _split(str(value))
    started = launched(tuple(words), _AT)
    if started is not None:
        return dict(started.args.value or {})
    is_line = _OPTION.search(" ".join(words)) is not None
    return parse_arguments(engine, (engine, *words)) if is_line else {}


def _split(text: str) -> list[str]:
    text = re.sub(r"\\\n", " ", text[:20000])
    try:
        return shlex.split(text)
    except ValueError:
        return text.split()
