"""Limits of a process that somebody tells in a sentence: "max locked memory 8192 kbytes"."""

from __future__ import annotations

import re
from collections.abc import Callable

from doctor.facts import UNSTATED, Limits, Reading, seen

_GAP = r"(?:\(kbytes, -l\)|\(-n\)| limit| is| are|:|=| of| at| only){0,3} ?"
_LOCKED = re.compile(
    rf"\b(?:max(?:imum)? locked memory|locked memory|(?:rlimit_|limit)?memlock|ulimit -l){_GAP}"
    r"(\d{1,15}|unlimited|infinity) ?(bytes|[kmg]i?b?(?:ytes)?)?\b",
    re.IGNORECASE,
)
_FILES = re.compile(
    rf"\b(?:(?:max )?open files(?: limit)?|nofile|ulimit -n){_GAP}(\d{{2,9}}|unlimited|infinity)\b",
    re.IGNORECASE,
)
_KIB = {"k": 1, "m": 1024, "g": 1024 * 1024}
_UNLIMITED = -1
# What somebody did about it is no longer what is there.
_CHANGED = re.compile(r"\b(?:fix\w*|helps|helped|raised|works with|after|set to|--ulimit)\b", re.I)


def told_limits(texts: tuple[str, ...]) -> Limits:
    """Open files, and locked memory in KiB."""
    plain = tuple(text for text in texts if not _CHANGED.search(text))
    return Limits(
        open_files=_first(plain, _FILES, lambda m: int(m[1])),
        locked_memory_kib=_first(plain, _LOCKED, _kib),
    )


def _kib(match: re.Match[str]) -> int:
    unit = (match[2] or "k").lower()
    return int(match[1]) // 1024 if unit == "bytes" else int(match[1]) * _KIB[unit[0]]


def _first(
    texts: tuple[str, ...], words: re.Pattern[str], figure: Callable[[re.Match[str]], int]
) -> Reading[int]:
    match = next(filter(None, map(words.search, texts)), None)
    if match is None:
        return UNSTATED
    endless = match[1].lower() in ("unlimited", "infinity")
    return seen(_UNLIMITED if endless else figure(match), "notes", partial=True)
