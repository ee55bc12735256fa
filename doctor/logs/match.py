"""Find the signatures in a log, in the order in which they were printed.

Literals are searched first, over the whole text, and only those whose whole words all
stand in it; a pattern runs only on the line that holds its literal, and only on its
first 4,096 characters. So no text can make it slow.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

from doctor.matrix.catalogue import Signature

LINE_LIMIT = 4096
TEXT_LIMIT = 4 << 20
WHOLE_LIMIT = 128 << 10

# Of a long log only lines with one of these words are searched: errors say so.
LANDMARKS = (
    "error",
    "fail",
    "exception",
    "fatal",
    "abort",
    "cannot",
    "can't",
    "not ",
    "no ",
    "unable",
    "undefined symbol",
    "unsupported",
    "invalid",
    "insufficient",
    "only support",
    "requires",
    "out of memory",
    "killed",
    "xid",
    "mismatch",
    "denied",
    "refused",
    "hang",
    "too ",
    "missing",
    "unknown",
    "must be",
    "expected",
    "incompatible",
    "disabled",
    "ignored",
    "unlicensed",
    "lacks",
    "less than",
)


@dataclass(frozen=True)
class LogMatch:
    """A signature with the line that shows it (1-based number in the text).

    `remark` tells that the program printed the line for information only.
    """

    signature: Signature
    line: str
    number: int
    remark: bool = False


def find_matches(text: str, signatures: tuple[Signature, ...], engine: str = "") -> list[LogMatch]:
    """All signatures of the text: real errors, then remarks, then mere consequences.

    Among those of a kind the first line counts, on one line the longest literal.
    """
    cut = _condensed(text[:TEXT_LIMIT])
    lowered = _lowered(cut)
    words = frozenset(_WORD.findall(lowered))
    found = []
    for signature in signatures:
        if signature.engines and engine and engine not in signature.engines:
            continue
        place = _place(signature, lowered, words)
        if place >= 0:
            found.append(_match(signature, cut, place))
    found.sort(key=_order)
    return [_numbered(match, text) for match, _ in found]


Placed = tuple[LogMatch, int]


def _order(item: Placed) -> tuple[bool, bool, int, int]:
    match, start = item
    return (match.signature.consequence, match.remark, start, -_length(match.signature))


def _lowered(text: str) -> str:
    lowered = text.lower()
    if len(lowered) == len(text):
        return lowered
    # Some letters grow when lowered; positions must stay comparable.
    return "".join(c.lower() if len(c.lower()) == 1 else c for c in text)


def _condensed(text: str) -> str:
    """A short text as it is; of a long one the first lines that hold a landmark.

    Of lines that differ only in digits the first two stand for all.
    """
    if len(text) <= WHOLE_LIMIT:
        return text
    lines, size = [], 0
    seen: Counter[str] = Counter()
    for line in _pieces(text):
        shape = line[:_SHAPE].translate(_WITHOUT_DIGITS)
        seen[shape] += 1
        if seen[shape] > 2 or not _has_landmark(line.lower()):
            continue
        lines.append(line)
        size += len(line) + 1
        if size > WHOLE_LIMIT:
            break
    return "\n".join(lines)


def _pieces(text: str) -> Iterator[str]:
    """Lines, those without an end in parts."""
    for line in text.split("\n"):
        for start in range(0, max(len(line), 1), LINE_LIMIT):
            yield line[start : start + LINE_LIMIT]


_SHAPE = 160
_WITHOUT_DIGITS = str.maketrans("", "", "0123456789")


def _has_landmark(lowered: str) -> bool:
    for word in LANDMARKS:  # noqa: SIM110 - any() takes twice the time, most of all is spent here
        if word in lowered:
            return True
    return False


_WORD = re.compile(r"[a-z0-9_]{3,}")


@lru_cache(maxsize=1 << 14)
def _whole_words(literal: str) -> frozenset[str]:
    """Words that a text must hold if it holds the literal.

    The first and the last may be part of a longer word there, unless the literal says
    what stands beside them.
    """
    return frozenset(
        found[0]
        for found in _WORD.finditer(literal)
        if found.start() > 0 and found.end() < len(literal)
    )


@lru_cache(maxsize=1 << 14)
def _folded(literal: str) -> str:
    return literal.lower()


def _find(literal: str, lowered: str, words: frozenset[str]) -> int:
    """The first place of the literal, or -1."""
    folded = _folded(literal)
    return lowered.find(folded) if _whole_words(folded) <= words else -1


def _place(signature: Signature, lowered: str, words: frozenset[str]) -> int:
    """Where the signature stands, or -1."""
    places = [_find(literal, lowered, words) for literal in signature.all]
    if -1 in places:
        return -1
    if any(_find(literal, lowered, words) >= 0 for literal in signature.none):
        return -1
    if not signature.any:
        return min(places)
    first = [_first(literal, signature.pattern, lowered, words) for literal in signature.any]
    return min((place for place in first if place >= 0), default=-1)


_OCCURRENCES = 64


def _first(literal: str, pattern: str, lowered: str, words: frozenset[str]) -> int:
    """First place of the literal whose line also satisfies the pattern."""
    place = _find(literal, lowered, words)
    for _ in range(_OCCURRENCES):
        if place < 0 or not pattern:
            return place
        if _compiled(pattern).search(_line_at(lowered, place)):
            return place
        place = lowered.find(_folded(literal), place + len(literal))
    return -1


@lru_cache(maxsize=512)
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE)


def _line_start(text: str, place: int) -> int:
    return max(text.rfind("\n", 0, place) + 1, place - LINE_LIMIT // 2)


def _line_at(text: str, place: int) -> str:
    start = _line_start(text, place)
    end = text.find("\n", place)
    return text[start : min(end if end >= 0 else len(text), start + LINE_LIMIT)]


# How loggers of Python, Go and NCCL mark a line; the first mark counts.
_LEVEL = re.compile(r"\b(INFO|DEBUG|TRACE|WARN|WARNING|ERROR|FATAL|CRITICAL)\b|\blevel=(\w+)")
_REMARKS = ("info", "debug", "trace")


def _is_remark(line: str) -> bool:
    level = _LEVEL.search(line[:100])
    return level is not None and (level[1] or level[2]).lower() in _REMARKS


def _match(signature: Signature, cut: str, place: int) -> Placed:
    line = _line_at(cut, place).strip()
    return LogMatch(signature, line, 0, _is_remark(line)), _line_start(cut, place)


def _numbered(match: LogMatch, text: str) -> LogMatch:
    number = text.count("\n", 0, max(text.find(match.line), 0)) + 1
    return replace(match, number=number)


def _length(signature: Signature) -> int:
    """Longer literals are more specific."""
    return max((len(literal) for literal in (*signature.any, *signature.all)), default=0)
