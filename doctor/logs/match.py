"""Find the signatures in a log, in the order in which they were printed.

A pattern runs only on a line that holds its literal, and only on its first 4,096
characters. So no text can make it slow.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import islice

from doctor.logs.text import LogText
from doctor.matrix.catalogue import Signature


@dataclass(frozen=True)
class LogMatch:
    """A signature with the line that shows it (1-based number in the text).

    `remark` tells that the program printed the line as information or a warning, not as
    an error: it stops nothing, but may be the reason of what follows.
    """

    signature: Signature
    line: str
    number: int
    remark: bool = False


def find_matches(text: str, signatures: tuple[Signature, ...], engine: str = "") -> list[LogMatch]:
    """All signatures of the text: real errors, then remarks, then mere consequences.

    Among those of a kind the first line counts, on one line the longest literal.
    """
    log = LogText(text)
    found = []
    for signature in signatures:
        if signature.engines and engine and engine not in signature.engines:
            continue
        place = _place(signature, log)
        if place >= 0:
            found.append(_match(signature, log, place))
    found.sort(key=_order)
    return [_numbered(match, text) for match, _ in found]


Placed = tuple[LogMatch, int]


def _order(item: Placed) -> tuple[bool, bool, int, int]:
    match, start = item
    return (match.signature.consequence, match.remark, start, -_length(match.signature))


def _place(signature: Signature, log: LogText) -> int:
    """Where the signature stands, on an error's line rather than a remark's; or -1."""
    places = [_find(literal, log) for literal in signature.all]
    if -1 in places:
        return -1
    if any(_find(literal, log) >= 0 for literal in signature.none):
        return -1
    if not signature.any:
        return min(places)
    found = (_first(literal, signature.pattern, log) for literal in signature.any)
    return min((item for item in found if item), default=(False, -1))[1]


def _find(literal: str, log: LogText) -> int:
    """The first place of the literal, or -1."""
    return next(log.places(_folded(literal)), -1)


@lru_cache(maxsize=1 << 14)
def _folded(literal: str) -> str:
    return literal.lower()


_OCCURRENCES = 64


def _first(literal: str, pattern: str, log: LogText) -> tuple[bool, int] | None:
    """First place of the literal whose line satisfies the pattern; whether it is a remark."""
    remark = None
    for place in islice(log.places(_folded(literal)), _OCCURRENCES):
        start, end = log.line_span(place)
        if pattern and not _compiled(pattern).search(log.lowered[start:end]):
            continue
        if not _is_remark(log.cut[start:end]):
            return False, place
        remark = remark or (True, place)
    return remark


@lru_cache(maxsize=1024)
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE)


# How loggers of Python and Go mark a line; the first mark counts. NCCL warns of what stops it.
_LEVEL = re.compile(
    r"\b(INFO|DEBUG|TRACE|(?<!NCCL )WARN|WARNING|ERROR|FATAL|CRITICAL)\b|\blevel=(\w+)"
)
_REMARKS = ("info", "debug", "trace", "warn", "warning")


def _is_remark(line: str) -> bool:
    level = _LEVEL.search(line[:100])
    return level is not None and (level[1] or level[2]).lower() in _REMARKS


def _match(signature: Signature, log: LogText, place: int) -> Placed:
    start, end = log.line_span(place)
    line = log.cut[start:end].strip()
    return LogMatch(signature, line, 0, _is_remark(line)), start


def _numbered(match: LogMatch, text: str) -> LogMatch:
    number = text.count("\n", 0, max(text.find(match.line), 0)) + 1
    return replace(match, number=number)


def _length(signature: Signature) -> int:
    """Longer literals are more specific."""
    return max((len(literal) for literal in (*signature.any, *signature.all)), default=0)
