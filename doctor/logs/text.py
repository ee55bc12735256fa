"""A log made ready for the search: cut to the lines that may tell, and indexed by its words."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache

from doctor.facts.model import LOG_LIMIT

LINE_LIMIT = 4096
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


class LogText:
    """The telling part of a log. `cut` keeps its letters, `lowered` has the same length."""

    def __init__(self, text: str) -> None:
        self.cut = _condensed(text[:LOG_LIMIT])
        self.lowered = _lowered(self.cut)
        self._words: dict[str, list[int]] = {}
        for found in _WORD.finditer(self.lowered):
            self._words.setdefault(found[0], []).append(found.start())
        self._vocabulary = "\n".join(self._words)

    def places(self, literal: str) -> Iterator[int]:
        """Where the literal stands, in order. It must be in small letters.

        Looked for only where its rarest whole word stands; one without a whole word is
        looked for in the text if its longest part is a part of some word of it.
        """
        key = _key(literal)
        if key.words:
            return self._at_words(literal, key.words)
        return self._anywhere(literal) if key.part in self._vocabulary else iter(())

    def _at_words(self, literal: str, words: tuple[tuple[str, int], ...]) -> Iterator[int]:
        known = [(self._words.get(word, _NOWHERE), offset) for word, offset in words]
        starts, offset = min(known, key=lambda item: len(item[0]))
        for start in starts:
            if start >= offset and self.lowered.startswith(literal, start - offset):
                yield start - offset

    def _anywhere(self, literal: str) -> Iterator[int]:
        place = self.lowered.find(literal)
        while place >= 0:
            yield place
            place = self.lowered.find(literal, place + len(literal))

    def line_start(self, place: int) -> int:
        """Where the line of this place begins, within the limit of a line."""
        return max(self.lowered.rfind("\n", 0, place) + 1, place - LINE_LIMIT // 2)

    def line_span(self, place: int) -> tuple[int, int]:
        """The line of this place, as start and end."""
        start = self.line_start(place)
        end = self.lowered.find("\n", place)
        end = end if end >= 0 else len(self.lowered)
        return start, min(end, start + LINE_LIMIT)


class _Key:
    """What of a literal can be looked up: whole words with their offsets, or its longest part."""

    def __init__(self, literal: str) -> None:
        found = list(_WORD.finditer(literal))
        # The first and the last word may be part of a longer word in the text.
        self.words = tuple(
            (word[0], word.start())
            for word in found
            if word.start() > 0 and word.end() < len(literal)
        )
        self.part = max((word[0] for word in found), key=len, default="")


@lru_cache(maxsize=1 << 14)
def _key(literal: str) -> _Key:
    return _Key(literal)


_WORD = re.compile(r"[a-z0-9_]{3,}")
_NOWHERE: list[int] = []


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


_SHAPE = 100
_WITHOUT_DIGITS = str.maketrans("", "", "0123456789")


def _has_landmark(lowered: str) -> bool:
    for word in LANDMARKS:  # noqa: SIM110 - any() takes twice the time, most of all is spent here
        if word in lowered:
            return True
    return False
