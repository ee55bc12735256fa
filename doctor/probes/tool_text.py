"""Reading the outputs of tools as text: fields, indented fields, plain lines. All linear."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from typing import Optional, TypeVar

from doctor.facts import UNSTATED, Reading, Version, seen

T = TypeVar("T")

# No output of a tool that is read here is longer; logs are kept whole and not parsed.
LIMIT = 160 << 10
MAX_FIELDS = 5000

_FIELD = re.compile(r"^[ \t]*([A-Za-z][^:\n]{0,70}):(?:[ \t]+([^\n]*)|[ \t]*$)", re.MULTILINE)
_INDENTED = re.compile(r"^([ \t]*)([^ \t:\n][^:\n]{0,70})(?:[ \t]:[ \t]*([^\n]*))?$", re.MULTILINE)
_NONE = frozenset(
    {"", "n/a", "[n/a]", "none", "na", "not set", "could not collect", "[not supported]"}
)


def fields(text: str) -> dict[str, str]:
    """`Key: value` lines; of two with the same key the first counts."""
    found: dict[str, str] = {}
    for match in islice(_FIELD.finditer(text[:LIMIT]), MAX_FIELDS):
        found.setdefault(match[1].rstrip(), (match[2] or "").strip())
    return found


def indented(text: str) -> Iterator[tuple[tuple[str, ...], str]]:
    """`Key : value` lines under the keys of the lines above them, all keys in lower case."""
    stack: list[tuple[int, str]] = []
    for match in islice(_INDENTED.finditer(text[:LIMIT]), MAX_FIELDS):
        depth = len(match[1].expandtabs(8))
        while stack and stack[-1][0] >= depth:
            stack.pop()
        stack.append((depth, match[2].strip().lower()))
        if len(stack) > 8:
            stack.pop(0)
        yield tuple(name for _, name in stack), (match[3] or "").strip()


def lines(text: str) -> list[str]:
    """The lines of an output, without trailing blanks."""
    return [line.rstrip() for line in text[:LIMIT].split("\n")]


def value_or_none(text: Optional[str]) -> Optional[str]:
    """The text, or None for what tools print in place of a value."""
    stripped = (text or "").strip()
    return None if stripped.lower() in _NONE else stripped


def version_or_none(text: Optional[str]) -> Optional[Version]:
    """The version in a field, or None for what is none."""
    return Version.maybe(value_or_none(text))


def integer(text: Optional[str]) -> Optional[int]:
    """The number that a field begins with ("81559 MiB"), or None."""
    match = re.match(r"\s{0,9}(\d{1,15})(?![\d.])", text or "")
    return int(match[1]) if match else None


def reading(value: Optional[T], at: str, partial: bool = False) -> Reading[T]:
    """A reading of a value that may not have been stated."""
    return UNSTATED if value is None else seen(value, at, partial)
