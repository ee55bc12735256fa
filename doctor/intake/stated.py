"""Values as people write them: short versions, "yes", "8 GPUs". Nothing here raises."""

from __future__ import annotations

import re
import reprlib
from typing import Any, TypeVar

from doctor.facts import Reading, Version
from doctor.probes.stated_version import version, widened
from doctor.probes.tool_text import reading

T = TypeVar("T")

_MAX_TEXT, _MAX_WORDS, _MAX_ITEMS = 4000, 200, 20
# Bounded in depth and width: aliases in YAML can make a small file a huge value.
_BRIEF = reprlib.Repr()
_UNSET = frozenset({"", "~", "null", "none", "n/a", "unknown", "?", "not given", "not stated"})
_TRUE = frozenset({"true", "yes", "on", "1", "enabled"})
_FALSE = frozenset({"false", "no", "off", "0", "disabled"})


def plain_text(value: Any) -> str:
    """A scalar as clean text; "" for what says nothing, and for lists and mappings."""
    if value is None or isinstance(value, (dict, list)):
        return ""
    text = str(value).strip()[:_MAX_TEXT]
    return "" if text.lower() in _UNSET else text


def words_in(value: Any, depth: int = 2) -> str:
    """The plain values of a table or list, some levels deep: aliases can make one endless."""
    if not isinstance(value, (dict, list)):
        return plain_text(value)[:_MAX_WORDS]
    items = list(value.values() if isinstance(value, dict) else value)[:_MAX_ITEMS]
    return " ".join(words_in(item, depth - 1) for item in items) if depth else ""


def truth(text: str) -> bool | None:
    """Read yes, no, true, off ...; None for anything else."""
    word = text.strip().lower()
    if word in _TRUE:
        return True
    return False if word in _FALSE else None


def number(text: str) -> float | None:
    """Read a finite number, also one followed by a unit word; None for anything else."""
    match = re.match(r"[-+]?\d{1,15}(?:\.\d{1,12})?(?![\w.])|[-+]?\d{1,15}(?:\.\d{1,12})?", text)
    return float(match[0]) if match else None


def driver_version(text: str) -> Version | None:
    """Read an NVIDIA driver version; "550" and "550.54" are short, "580.142" is not."""
    found = version(re.sub(r"\s*\([^()]*\)\s*$", "", text), width=1)
    if found is None or not found.is_exact or len(found.release) > 2:
        return found
    whole = (found.minor or 0) > 99
    return found if whole else widened(found, 3)


class Stated:
    """One table of a report. It knows where it stands and what nobody has read yet.

    `notes` collects, for all tables of a report, what could not be understood.
    """

    def __init__(self, data: Any, where: str, notes: list[str]) -> None:
        self.data: dict[str, Any] = data if isinstance(data, dict) else {}
        self.where = where
        self.notes = notes
        self._used: set[str] = set()
        self._tables: dict[str, Stated] = {}
        if data and not isinstance(data, dict):
            self.note(where, data)

    def note(self, name: str, value: Any) -> None:
        """Keep what was not understood."""
        brief = _BRIEF.repr(value) if isinstance(value, (dict, list)) else str(value)[:_MAX_TEXT]
        self.notes.append(f"{name}: {brief}")

    def at(self, key: str) -> str:
        """The place of a key, for readings."""
        return f"{self.where}.{key}" if self.where else key

    def raw(self, key: str) -> Any:
        """The value as it was written, or None."""
        self._used.add(key)
        return self.data.get(key)

    def text(self, key: str) -> str:
        """A scalar as text, "" if it was not stated."""
        value = self.raw(key)
        if isinstance(value, (dict, list)) and value:
            self.note(self.at(key), value)
        return plain_text(value)

    def strings(self, key: str) -> tuple[str, ...]:
        """A list of texts; a single text counts as a list of one."""
        value = self.raw(key)
        items = value if isinstance(value, list) else [value]
        return tuple(text for text in map(plain_text, items) if text)

    def table(self, key: str) -> Stated:
        """The table under `key`, empty if there is none; the same one each time."""
        if key not in self._tables:
            self._tables[key] = Stated(self.raw(key), self.at(key), self.notes)
        return self._tables[key]

    def flag(self, key: str) -> bool | None:
        """A yes or no; what is neither becomes a note."""
        return self._understood(key, truth(self.text(key)))

    def number(self, key: str) -> float | None:
        """A number; what is none becomes a note."""
        return self._understood(key, number(self.text(key)))

    def version(self, key: str, width: int = 3) -> Reading[Version]:
        """A version; what is none becomes a note."""
        return reading(self._understood(key, version(self.text(key), width)), self.at(key))

    def driver(self, key: str) -> Reading[Version]:
        """A driver version; what is none becomes a note."""
        return reading(self._understood(key, driver_version(self.text(key))), self.at(key))

    def _understood(self, key: str, value: T | None) -> T | None:
        text = self.text(key)
        if value is None and text:
            self.note(self.at(key), text)
        return value

    def note_unread(self) -> None:
        """Turn keys that nobody asked for into notes."""
        for key in self.data:
            if key not in self._used:
                self.note(self.at(key), self.data[key])
