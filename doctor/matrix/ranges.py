"""Rows that hold for a range of versions: from `since` up to, not including, `until`."""

from __future__ import annotations

from functools import lru_cache
from typing import Protocol

from doctor.facts import Version


class Ranged(Protocol):
    """A row with bounds; an empty text is no bound."""

    @property
    def since(self) -> str: ...  # noqa: D102
    @property
    def until(self) -> str: ...  # noqa: D102


@lru_cache(maxsize=4096)
def version_of(text: str) -> Version:
    """The version that a row states; the resolver compares the same few thousands of times."""
    return Version(text)


def covers(row: Ranged, version: Version | None) -> bool | None:
    """Tell whether the row's range holds the version; None if that is open."""
    if version is None:
        return None if row.since or row.until else True
    lower = version.at_least(version_of(row.since)) if row.since else True
    upper = version.older_than(version_of(row.until)) if row.until else True
    if lower is False or upper is False:
        return False
    return None if lower is None or upper is None else True
