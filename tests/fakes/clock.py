"""A pytest plugin: the tests are collected as if on another day, and what they are is printed."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterable
from typing import SupportsIndex

import pytest

_DAYS = 1001
_now, _local = time.time, time.localtime


def _later() -> float:
    return _now() + _DAYS * 86_400


def _later_local(seconds: float | SupportsIndex | None = None) -> time.struct_time:
    return _local(_later() if seconds is None else seconds)


def pytest_configure() -> None:
    time.time = _later
    time.localtime = _later_local


def collected(items: Iterable[pytest.Item]) -> set[str]:
    """A line for each test: a digest of its name and of the texts and bytes it is given."""
    return {_line(item) for item in items}


def _line(item: pytest.Item) -> str:
    given = getattr(getattr(item, "callspec", None), "params", {})
    plain = [repr(value) for value in given.values() if isinstance(value, (str, bytes))]
    digest = hashlib.sha256("\0".join([item.nodeid, *plain]).encode()).hexdigest()[:16]
    return f"{digest} {item.nodeid!r}"


def pytest_collection_finish(session: pytest.Session) -> None:
    print(*sorted(collected(session.items)), sep="\n")
