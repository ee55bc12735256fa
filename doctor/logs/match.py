"""Find the signatures in a log, in the order in which they were printed.

Literals are searched first, over the whole text; a pattern runs only on the line that
holds its literal, and only on its first 4,096 characters. So no text can make it slow.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
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
    """A signature with the line that shows it (1-based number in the text)."""

    signature: Signature
    line: str
    number: int


def find_matches(text: str, signatures: tuple[Signature, ...], engine: str = "") -> list[LogMatch]:
    """All signatures of the text: real errors before mere consequences, then by position."""
    cut = _condensed(text[:TEXT_LIMIT])
    lowered = _lowered(cut)
    found = []
    for signature in signatures:
        if signature.engines and engine and engine not in signature.engines:
            continue
        place = _place(signature, lowered)
        if place >= 0:
            found.append((signature.consequence, place, signature))
    found.sort(key=lambda item: (item[0], item[1], -_length(item[2])))
    return [_match(signature, cut, place, text) for _, place, signature in found]


def _lowered(text: str) -> str:
    lowered = text.lower()
    if len(lowered) == len(text):
        return lowered
    # Some letters grow when lowered; positions must stay comparable.
    return "".join(c.lower() if len(c.lower()) == 1 else c for c in text)


def _condensed(text: str) -> str:
    """A short text as it is; of a long one the first lines that hold a landmark."""
    if len(text) <= WHOLE_LIMIT:
        return text
    lowered = _lowered(text)
    spans: dict[int, int] = {}
    for word in LANDMARKS:
        _collect(word, lowered, spans)
    lines, size = [], 0
    for start in sorted(spans):
        lines.append(text[start : spans[start]])
        size += spans[start] - start + 1
        if size > WHOLE_LIMIT:
            break
    return "\n".join(lines)


def _collect(word: str, lowered: str, spans: dict[int, int]) -> None:
    """Add the lines that hold `word`, until they fill the limit."""
    place, size = lowered.find(word), 0
    while place >= 0 and size < WHOLE_LIMIT:
        start = max(lowered.rfind("\n", 0, place) + 1, place - LINE_LIMIT)
        end = lowered.find("\n", place)
        end = min(end if end >= 0 else len(lowered), place + LINE_LIMIT)
        spans[start] = max(end, spans.get(start, 0))
        size += end - start + 1
        place = lowered.find(word, end)


def _place(signature: Signature, lowered: str) -> int:
    """Where the signature stands, or -1."""
    if not all(literal.lower() in lowered for literal in signature.all):
        return -1
    if any(literal.lower() in lowered for literal in signature.none):
        return -1
    places = [_first(literal.lower(), signature.pattern, lowered) for literal in signature.any]
    known = [place for place in places if place >= 0]
    if not signature.any:
        return min(lowered.find(literal.lower()) for literal in signature.all)
    return min(known, default=-1)


_OCCURRENCES = 64


def _first(literal: str, pattern: str, lowered: str) -> int:
    """First place of the literal whose line also satisfies the pattern."""
    place = lowered.find(literal)
    for _ in range(_OCCURRENCES):
        if place < 0 or not pattern:
            return place
        if _compiled(pattern).search(_line_at(lowered, place)):
            return place
        place = lowered.find(literal, place + len(literal))
    return -1


@lru_cache(maxsize=512)
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE)


def _line_at(text: str, place: int) -> str:
    start = max(text.rfind("\n", 0, place) + 1, place - LINE_LIMIT // 2)
    end = text.find("\n", place)
    return text[start : min(end if end >= 0 else len(text), start + LINE_LIMIT)]


def _match(signature: Signature, cut: str, place: int, text: str) -> LogMatch:
    line = _line_at(cut, place).strip()
    number = text.count("\n", 0, max(text.find(line), 0)) + 1
    return LogMatch(signature, line, number)


def _length(signature: Signature) -> int:
    """Longer literals are more specific."""
    return max((len(literal) for literal in (*signature.any, *signature.all)), default=0)
