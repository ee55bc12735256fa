"""Find the signatures in a log, in the order in which they were printed.

A pattern runs only on a line that holds its literal, on the part of it around the literal,
and all patterns together on no more than a limit. So no text can make it slow.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import islice

from doctor.logs.text import LogText
from doctor.logs.typed import lowered
from doctor.matrix.catalogue import Signature


@dataclass(frozen=True)
class LogMatch:
    """A signature with the line that shows it (1-based number, and place in the log's plain text).

    `remark` tells that the program printed the line as information or a warning, not as
    an error: it stops nothing, but may be the reason of what follows. So do people's words,
    and a part of a message (`partial`).
    """

    signature: Signature
    line: str
    number: int
    remark: bool = False
    place: int = 0
    partial: bool = False

    def numbered(self, log: LogText) -> LogMatch:
        """The same with the number of its line."""
        return replace(self, number=log.number(self.place))


def find_matches(text: str, signatures: tuple[Signature, ...], engine: str = "") -> list[LogMatch]:
    """All signatures of the text: real errors, then remarks, then mere consequences.

    Among those of a kind the first line counts, on one line the longest literal.
    """
    log = LogText(text)
    return [match.numbered(log) for match in search(log, signatures, engine)]


def search(log: LogText, signatures: tuple[Signature, ...], engine: str = "") -> list[LogMatch]:
    """As find_matches, of a log that is made ready; their lines are not numbered yet."""
    return sorted(_Search(log).matches(signatures, engine), key=_order)


def _order(match: LogMatch) -> tuple[bool, bool, int, int, int]:
    known, possible = _length(match)
    return match.signature.consequence, match.remark, match.place, -known, -possible


class _Search:
    """One log, and what was already learnt of its lines."""

    def __init__(self, log: LogText) -> None:
        self._log = log
        self._remarks: dict[int, bool] = {}
        self._tested = 0

    def matches(self, signatures: tuple[Signature, ...], engine: str) -> list[LogMatch]:
        """What is found, in the order of the signatures."""
        engines = (s for s in signatures if not (s.engines and engine) or engine in s.engines)
        asked = (s for s in engines if not s.brief or len(self._log.plain) <= BRIEF)
        placed = ((signature, self._place(signature)) for signature in asked)
        return [self._match(signature, place) for signature, place in placed if place >= 0]

    def _match(self, signature: Signature, place: int) -> LogMatch:
        start, end = self._log.line_span(place)
        line = self._log.cut[start:end]
        text = line.strip()
        origin = self._log.origin(start + len(line) - len(line.lstrip()))
        remark = signature.brief or signature.hint or self._is_remark(start)
        return LogMatch(signature, text, 0, remark, origin)

    def _place(self, signature: Signature) -> int:
        """Where the signature stands, on an error's line rather than a remark's; or -1."""
        places = [self._find(literal) for literal in signature.all]
        if -1 in places:
            return -1
        found = [self._first(literal, signature.pattern) for literal in signature.any]
        best = min((item for item in found if item), default=None)
        if signature.any and best is None:
            return -1
        if any(self._find(literal) >= 0 for literal in signature.none):
            return -1
        return best[1] if best else min(places)

    def _find(self, literal: str) -> int:
        """The first place of the literal, or -1."""
        return next(self._log.places(_folded(literal)), -1)

    def _first(self, literal: str, pattern: str) -> tuple[bool, int] | None:
        """First place of the literal whose line satisfies the pattern; whether it is a remark."""
        remark = None
        for place in islice(self._log.places(_folded(literal)), _OCCURRENCES):
            start, end = self._log.line_span(place)
            if pattern and not self._satisfies(pattern, start, end):
                continue
            if not self._is_remark(start):
                return False, place
            remark = remark or (True, place)
        return remark

    def _satisfies(self, pattern: str, start: int, end: int) -> bool:
        self._tested += end - start
        if self._tested > _TESTED:
            return False
        return _compiled(pattern).search(self._log.lowered[start:end]) is not None

    def _is_remark(self, start: int) -> bool:
        known = self._remarks.get(start)
        if known is None:
            known = self._remarks[start] = _is_remark(self._log.cut[start : start + _HEAD])
        return known


@lru_cache(maxsize=1 << 14)
def _folded(literal: str) -> str:
    return lowered(literal)


# A text up to this length may be what a person says of a fault rather than a log.
BRIEF = 500
# Places of one literal that are looked at, and characters that all patterns may read.
_OCCURRENCES = 64
_TESTED = 128 << 10


@lru_cache(maxsize=1024)
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE)


# How programs mark a line; the first mark counts. Loggers of Python and Go write the level,
# those of JSON a field, glog and klog a letter with the month and day, TensorRT and onnxruntime
# a letter in brackets. NCCL warns of what stops it.
_HEAD = 160
_LEVEL = re.compile(
    r"(?<![=\w])(INFO|DEBUG|TRACE|(?<!NCCL )WARN|WARNING|ERROR|FATAL|CRITICAL)\b"
    r"|\blevel=(\w{4,8})|\"(?:level|severity)\": ?\"(\w{4,8})\""
    r"|(?:^|[\[: ])([IWEF])\d{4} \d\d:\d\d:|\[([IWEFV])(?:\]|:onnxruntime)"
)
_REMARKS = ("info", "debug", "trace", "warn", "warning", "i", "w", "v")


def _is_remark(head: str) -> bool:
    level = _LEVEL.search(head.partition("\n")[0])
    return level is not None and level[level.lastindex or 0].lower() in _REMARKS


def _length(match: LogMatch) -> tuple[int, int]:
    """How much of the line the signature knows, then how much it could: more is more specific."""
    line, signature = lowered(match.line), match.signature
    lengths = {lowered(each): len(each) for each in (*signature.any, *signature.all)}
    known = (length for each, length in lengths.items() if each in line)
    return max(known, default=0), max(lengths.values(), default=0)
