"""One observed value and where it was read, or the reason why it is missing."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any, Generic, Optional, TypeVar

from doctor.facts.record import Record

T = TypeVar("T")


class Missing(str, Enum):
    """Why a value is not known. Only `NOT_THERE` means that absence was observed."""

    NOT_THERE = "not-there"
    NOT_PERMITTED = "not-permitted"
    NOT_READABLE = "not-readable"
    TIMED_OUT = "timed-out"
    NOT_STATED = "not-stated"

    @classmethod
    def _missing_(cls, value: object) -> Optional[Missing]:
        """A reason that only a newer doctor knows says at least that there is no value."""
        return cls.NOT_STATED if isinstance(value, str) else None


class MissingFact(Exception):  # noqa: N818 - an answer, not a failure
    """A rule needed a value that was not observed; the engine turns it into *cannot tell*."""

    def __init__(self, name: str, reason: Missing, at: str = "") -> None:
        super().__init__(name, reason, at)
        self.name = name
        self.reason = reason
        self.at = at


@dataclass(frozen=True, repr=False, eq=False)
class Reading(Record, Generic[T]):
    """A value with `at` (path, command or call it came from), or `missing` with a reason.

    `partial` marks a list or mapping of which more may exist, as when a person names
    three packages: what it does not hold is unknown, not absent.
    Wire form: `{"value": ..., "at": ...}` or `{"missing": reason, "at": ...}`.
    """

    value: Optional[T] = None
    missing: Optional[Missing] = None
    at: str = ""
    partial: bool = False

    @property
    def is_known(self) -> bool:
        """True if a value was observed (an empty string or list is a value)."""
        return self.missing is None and self.value is not None

    @property
    def is_absent(self) -> bool:
        """True if it was observed that the thing is not there."""
        return self.missing is Missing.NOT_THERE

    def known(self, name: str) -> T:
        """Return the value; raise `MissingFact` with the fact's `name` if there is none."""
        if self.missing is None and self.value is not None:
            return self.value
        raise MissingFact(name, self.missing or Missing.NOT_STATED, self.at)

    def present(self, name: str) -> Optional[T]:
        """Return the value, or None if it was observed to be absent; raise if unknown."""
        return None if self.is_absent else self.known(name)


UNSTATED: Reading[Any] = Reading(missing=Missing.NOT_STATED)


def seen(value: T, at: str = "", partial: bool = False) -> Reading[T]:
    """Make a reading of an observed value; `partial` if it is a list that may go on."""
    return Reading(value=value, at=at, partial=partial)


def missing(reason: Missing, at: str = "") -> Reading[Any]:
    """Make a reading that says why there is no value."""
    return Reading(missing=reason, at=at)
