"""Read YAML or JSON that a person wrote, leniently: every scalar stays the text it was."""

from __future__ import annotations

import json
import re
from itertools import islice
from typing import Any

import yaml

from doctor.errors import UsageError

_Loader: Any = getattr(yaml, "CBaseLoader", yaml.BaseLoader)


# Keys of the outermost table. In JSON those of inner tables are seen as well.
_YAML_KEY = re.compile(r"^([A-Za-z_][\w-]{0,60}):(?:[ \t]|$)", re.MULTILINE)
_JSON_KEY = re.compile(
    r'^(?:\{|[ \t]{0,4}|\{[ \t]{0,4})"([A-Za-z_][\w-]{0,60})"[ \t]{0,4}:', re.MULTILINE
)
_BEGINNING = re.compile(r"(?:[ \t]*(?:#[^\n]*)?\n|---[^\n]*\n)*[A-Za-z_][\w-]{0,60}:")


class _LenientLoader(_Loader):  # type: ignore[misc]  # the base is chosen at run time
    """Reads scalars as text; of two equal keys the later one counts."""


def _mapping(loader: Any, node: Any) -> dict[str, Any]:
    return {
        str(loader.construct_object(key, deep=True)): loader.construct_object(value, deep=True)
        for key, value in node.value
    }


_LenientLoader.add_constructor("tag:yaml.org,2002:map", _mapping)


def looks_like(text: str, keys: frozenset[str]) -> bool:
    """Tell whether this is a table of which at least half the keys are among `keys`."""
    head = text.lstrip()[:1]
    pattern = _JSON_KEY if head == "{" else _YAML_KEY
    found = {match[1] for match in islice(pattern.finditer(text), 2000)}
    begins = head == "{" or _BEGINNING.match(text) is not None
    return begins and 2 * len(found & keys) >= len(found) > 0


def read_document(text: str, name: str = "") -> Any:
    """Parse `text` as JSON if it is, else as YAML, numbers and all as text.

    Raises UsageError, which names the place of the fault.
    """
    label = name or "input"
    try:
        if text.lstrip()[:1] in ("{", "["):
            return json.loads(text, parse_int=str, parse_float=str, parse_constant=str)
    except (ValueError, RecursionError):
        pass  # YAML's flow style looks like JSON, and its errors name the line
    try:
        return yaml.load(text, Loader=_LenientLoader)  # noqa: S506 - text scalars only
    except (yaml.YAMLError, RecursionError, ValueError) as fault:
        reason = " ".join(str(fault).split())[:300]
        raise UsageError(f"{label}: {reason}", "mend the file at the place named") from None
