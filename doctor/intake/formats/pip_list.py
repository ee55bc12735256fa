"""`pip list`, `uv pip list`, `pip show`: the distributions of an environment."""

from __future__ import annotations

import json
import re
from itertools import islice

from doctor.facts import Facts, Package
from doctor.intake.environment import environment, package
from doctor.probes.tool_text import lines

AT = "pip list"
_HEADER = re.compile(
    r"^Package[ \t]{1,99}Version(?:[ \t][^\n]{0,99})?\n-{3,99}[ \t]{1,99}-{3,99}", re.MULTILINE
)
_COLUMNS = re.compile(r"([A-Za-z0-9][\w.-]{0,99})[ \t]{1,99}(v?\d[\w.!+-]{0,60})(?:[ \t].{0,400})?")
_SHOWN = re.compile(r"^Name: ([A-Za-z0-9][\w.-]{0,99})\nVersion: (\S{1,60})$", re.MULTILINE)
# A list shorter than this was filtered: an environment with an engine has far more.
SHORT = 15


def looks_like(text: str) -> bool:
    """Tell by the header of the columns, by JSON of names and versions, or by `pip show`."""
    return (
        _HEADER.search(text) is not None
        or _SHOWN.search(text) is not None
        or (text.lstrip()[:2] in ("[{", "[\n") and '"name"' in text and '"version"' in text)
    )


def parse(text: str) -> Facts:
    """The distributions with the versions printed."""
    found = _json(text) or _table(text)
    if found:
        return environment(found, AT, partial=len(found) < SHORT)
    shown = [package(match[1], match[2]) for match in islice(_SHOWN.finditer(text), 500)]
    return environment(shown, "pip show", partial=True) if shown else Facts()


def _table(text: str) -> list[Package]:
    header = _HEADER.search(text)
    if header is None:
        return []
    found = []
    for line in lines(text[header.end() :])[1:]:
        match = _COLUMNS.fullmatch(line[:600])
        if match is None:
            break
        found.append(package(match[1], match[2]))
    return found


def _json(text: str) -> list[Package]:
    if text.lstrip()[:1] != "[":
        return []
    try:
        rows = json.loads(text)
    except (ValueError, RecursionError):
        return []
    return [
        package(str(row["name"]), str(row["version"]))
        for row in rows
        if isinstance(row, dict) and "name" in row and "version" in row
    ]
