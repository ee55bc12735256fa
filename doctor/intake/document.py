"""Read YAML or JSON that a person wrote, leniently: every scalar stays the text it was."""

from __future__ import annotations

import json
import re
from itertools import islice
from typing import Any, ClassVar

import yaml

from doctor.errors import UsageError

_Loader: Any = getattr(yaml, "CBaseLoader", yaml.BaseLoader)


# Keys of the outermost table. In JSON those of inner tables are seen as well.
_YAML_KEY = re.compile(r"^([A-Za-z_][\w-]{0,60}):(?:[ \t]|$)", re.MULTILINE)
_JSON_KEY = re.compile(
    r'^(?:\{|[ \t]{0,4}|\{[ \t]{0,4})"([A-Za-z_][\w-]{0,60})"[ \t]{0,4}:', re.MULTILINE
)
_LOG = re.compile(
    r"^( {0,12})log: {0,4}[|>][-+0-9]{0,3} {0,4}\n((?:(?:\1 {1,12}[^\n]{0,100000}| {0,100})\n)+)",
    re.MULTILINE,
)
_MARKER = "(taken out)"
_LIMIT = 32 << 10
_BEGINNING = re.compile(r"(?:[ \t]*(?:#[^\n]*)?\n|---[^\n]*\n){0,200}[A-Za-z_][\w-]{0,60}:")


def _mapping(loader: Any, node: Any) -> dict[str, Any]:
    return {_name(key): loader.construct_object(value, deep=True) for key, value in node.value}


def _name(key: yaml.Node) -> str:
    """The text of a key; a list of lists of aliases would fill the memory as one."""
    if not isinstance(key, yaml.ScalarNode):
        raise yaml.MarkedYAMLError(problem="a key that is no text", problem_mark=key.start_mark)
    return str(key.value)


class _LenientLoader(_Loader):  # type: ignore[misc]  # the base is chosen at run time
    """Reads scalars as text; of two equal keys the later one counts."""

    yaml_constructors: ClassVar[dict[Any, Any]] = {
        **_Loader.yaml_constructors,
        "tag:yaml.org,2002:map": _mapping,
    }


def looks_like(text: str, keys: frozenset[str]) -> bool:
    """Tell whether this is a table of which at least half the keys are among `keys`."""
    head = text.lstrip()[:1]
    pattern = _JSON_KEY if head == "{" else _YAML_KEY
    if head != "{" and _BEGINNING.match(text.lstrip()) is None:
        return False
    found = {match[1] for match in islice(pattern.finditer(text), 2000)}
    return 2 * len(found & keys) >= len(found) > 0


def read_document(text: str, name: str = "") -> Any:
    """Parse `text` as JSON if it is, else as YAML, numbers and all as text.

    YAML may be 32 KiB long, without the lines of a `log: |` at the end of a level.
    Raises UsageError, which names the place of the fault.
    """
    label = name or "input"
    try:
        if text.lstrip()[:1] in ("{", "["):
            return json.loads(text, parse_int=str, parse_float=str, parse_constant=str)
    except (ValueError, RecursionError):
        pass  # YAML's flow style looks like JSON, and its errors name the line
    rest, log = _without_log(text) if len(text) > _LIMIT else (text, "")
    if len(rest) > _LIMIT:
        raise UsageError(f"{label}: too long for a field report", "keep 32 KiB beside its log")
    try:
        data = yaml.load(rest, Loader=_LenientLoader)  # noqa: S506 - text scalars only
        return _with_log(data, log) if log else data
    except (yaml.YAMLError, RecursionError, ValueError) as fault:
        reason = " ".join(str(fault).split())[:300]
        raise UsageError(f"{label}: {reason}", "mend the file at the place named") from None


def _without_log(text: str) -> tuple[str, str]:
    """Take the lines of the first `log: |` out; a marker stays in their place."""
    match = _LOG.search(text)
    if match is None:
        return text, ""
    body = match[2]
    margin = len(body) - len(body.lstrip(" "))
    log = re.sub(rf"^ {{1,{max(margin, 1)}}}", "", body, flags=re.MULTILINE)
    return f"{text[: match.start()]}{match[1]}log: {_MARKER}\n{text[match.end() :]}", log


def _with_log(data: Any, log: str) -> Any:
    """Put a log back where its marker stands: in the table, or in the report inside."""
    if not isinstance(data, dict):
        return data
    held = {key: _with_log(v, log) if key == "report" else v for key, v in data.items()}
    return {**held, "log": log} if held.get("log") == _MARKER else held
