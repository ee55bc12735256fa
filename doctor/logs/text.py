"""A log made ready for the search: cut to the lines that may tell, and indexed by its words.

Every step but the selection of lines is one call into C; that selection looks at blocks of
1024 characters, and at pieces of 64 of those that tell. So the cost is bounded by the length of
the text, whatever it holds.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cached_property, lru_cache

from doctor.facts.model import LOG_LIMIT
from doctor.intake.text import plain
from doctor.logs.typed import lowered

LINE_LIMIT = 4096
# Of a longer line, what is looked at around a literal.
AROUND = 512
# A log up to this length is searched as it is, of a longer one so much of its telling lines.
WHOLE_LIMIT, TELLING_LIMIT = 96 << 10, 64 << 10

# Of a long log only lines with one of these words are searched: errors say so. Few, as each
# is looked for in the whole of it: "mis" is missing, mismatch and permission.
LANDMARKS = (
    "error",
    "fail",
    "not ",
    "no ",
    "can't",
    "exception",
    "fatal",
    "abort",
    "unable",
    "undefined symbol",
    "support",
    "invalid",
    "insufficient",
    "requires",
    "out of memory",
    "killed",
    "xid",
    "mis",
    "denied",
    "refused",
    "hang",
    "too ",
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
    """The telling part of a log. `cut` keeps its letters, `lowered` has the same length.

    `plain` is the log without escapes; places are places in it, and its lines those of the log.
    """

    def __init__(self, text: str) -> None:
        self.plain = plain(_unescaped(text[:LOG_LIMIT]))
        self._starts, self._origins, self.cut = _telling(self.plain)
        self.lowered = lowered(self.cut)
        self._edges: defaultdict[str, list[int]] = defaultdict(list)
        self._words: defaultdict[str, list[int]] = defaultdict(list)
        self._index()

    def _index(self) -> None:
        """Note where each word begins, and where each pair of neighbours meets."""
        lowered, edges, words = self.lowered, self._edges, self._words
        for found in _WORD.finditer(lowered):
            start, end = found.span()
            words[lowered[start:end]].append(start)
            edges[lowered[end - _BEFORE : end + _AFTER]].append(end)

    @cached_property
    def all_words(self) -> str:
        """What conditions about the whole log may see: its beginning and its telling part."""
        if len(self.plain) <= WHOLE_LIMIT:
            return self.lowered
        return f"{lowered(self.plain[:WHOLE_LIMIT])}\n{self.lowered}"

    def around(self, origin: int, before: int, after: int) -> tuple[list[str], list[str]]:
        """Lines above and from a place in `plain`, in small letters.

        At most so many lines, and of long ones fewer.
        """
        above = lowered(self.plain[max(origin - before * _USUAL, 0) : origin]).split("\n")
        below = lowered(self.plain[origin : origin + LINE_LIMIT]).split("\n")
        return above[-before - 1 :], below[:after]

    @cached_property
    def _sorted(self) -> list[str]:
        return sorted(self._words)

    def places(self, literal: str) -> Iterator[int]:
        """Where the literal stands, in order. It must be in small letters.

        A literal of a single word is found where a word begins with it.
        """
        key = _key(literal)
        if key.edges:
            return self._at_edges(literal, key.edges)
        if key.word:
            return self._at_words(literal, key)
        return self._anywhere(literal)

    def _at_edges(self, literal: str, edges: tuple[tuple[str, int], ...]) -> Iterator[int]:
        rarest, ends = 0, None
        for edge, offset in edges:
            found = self._edges.get(edge)
            if found is None:
                return iter(())
            if ends is None or len(found) < len(ends):
                rarest, ends = offset, found
        return self._beginning(literal, rarest, ends or ())

    def _beginning(self, literal: str, before: int, ends: Iterable[int]) -> Iterator[int]:
        startswith = self.lowered.startswith
        for end in ends:
            if startswith(literal, end - before) and end >= before:
                yield end - before

    def _at_words(self, literal: str, key: _Key) -> Iterator[int]:
        """Where words that begin with the literal's longest word continue as it does."""
        first = bisect_left(self._sorted, key.word)
        starts: list[int] = []
        for word in self._sorted[first : first + _MOST_WORDS]:
            if not word.startswith(key.word) or len(starts) >= _MOST_PLACES:
                break
            starts += self._words[word][:_MOST_PLACES]
        for start in sorted(starts):
            if start >= key.offset and self.lowered.startswith(literal, start - key.offset):
                yield start - key.offset

    def _anywhere(self, literal: str) -> Iterator[int]:
        place = self.lowered.find(literal)
        while place >= 0:
            yield place
            place = self.lowered.find(literal, place + len(literal))

    def line_span(self, place: int) -> tuple[int, int]:
        """The line of this place, as start and end, within the limit of a line."""
        start = max(self.lowered.rfind("\n", 0, place) + 1, place - AROUND // 2)
        end = self.lowered.find("\n", place, start + AROUND)
        return start, end if end >= 0 else min(len(self.lowered), start + AROUND)

    def origin(self, place: int) -> int:
        """The place in `plain`."""
        piece = bisect_right(self._starts, place) - 1
        return place - self._starts[piece] + self._origins[piece]

    def number(self, origin: int) -> int:
        """The number of the line of a place in `plain`."""
        return 1 + self.plain.count("\n", 0, origin)


class _Key:
    """What of a literal can be looked up: edges of words with their offsets, or its longest word.

    An edge is the end of a word with what follows; the first and the last word of the
    literal may be part of a longer word in the text, and still have theirs in common.
    """

    def __init__(self, literal: str) -> None:
        words = [m.span() for m in _WORD.finditer(literal)]
        self.edges = tuple(
            (literal[end - _BEFORE : end + _AFTER], end)
            for _, end in words
            if end + _AFTER <= len(literal)
        )
        self.offset, end = max(words, key=lambda span: span[1] - span[0], default=(0, 0))
        self.word = literal[self.offset : end]


@lru_cache(maxsize=1 << 14)
def _key(literal: str) -> _Key:
    return _Key(literal)


_WORD = re.compile(r"[a-z0-9_]{2,}")
_BEFORE, _AFTER = 2, 3
# Characters of a line of a traceback, as an upper bound.
_USUAL = 160
# Of words that begin with a literal, and of their places, no more are looked at.
_MOST_WORDS, _MOST_PLACES = 64, 256


def _unescaped(text: str) -> str:
    """Escapes that were spelled out, as letters again; each line stays one line.

    Loggers of JSON spell them out, and so do syslog and those who show a file.
    """
    head = text[:WHOLE_LIMIT]
    for spelled in _SPELLED:
        if spelled in head:
            text = text.replace(spelled, "\x1b[")
    if '{"' in head and "\\" in head:
        for escape, letters in _JSON:
            text = text.replace(escape, letters)
    return text


_SPELLED = ("#033[", "^[[", "\\u001b[", "\\x1b[", "\\033[", "\\e[")
_JSON = (("\\n", " "), ("\\t", " "), ("\\r", " "), ('\\"', '"'))


def _telling(text: str) -> tuple[list[int], list[int], str]:
    """Pieces of the text that hold a landmark: where each begins, in the cut and the text.

    A short text is one piece. Of pieces that differ only in digits the first two stand
    for all.
    """
    if len(text) <= WHOLE_LIMIT:
        return [0], [0], text
    starts, origins, kept, size = [0], [0], [""], 0
    for begin, end in _pieces(_folded(text)):
        piece = text[begin:end]
        starts.append(size)
        origins.append(begin)
        kept.append(piece if piece.endswith("\n") else piece + "\n")
        size += len(kept[-1])
        if size > TELLING_LIMIT:
            break
    return starts, origins, "".join(kept)


def _pieces(folded: str) -> Iterator[tuple[int, int]]:
    """Spans of the pieces that tell; blocks without a landmark are not taken apart."""
    once: set[str] = set()
    twice: set[str] = set()
    mute: set[str] = set()
    for block in _BLOCK.finditer(folded):
        text = block[0]
        if text in mute:
            continue
        if not _has_landmark(text):
            mute.add(text)
            continue
        for found in _PIECE.finditer(folded, *block.span()):
            piece = found[0]
            if piece in twice:
                continue
            (twice if piece in once else once).add(piece)
            if _has_landmark(piece):
                yield found.span()


# Lines together, then a line with those before it that are short; one without an end in parts.
_BLOCK = re.compile(rf"[^\n]{{{LINE_LIMIT}}}|(?s:.{{1,1024}})[^\n]{{0,{LINE_LIMIT}}}\n?")
_PIECE = re.compile(rf"[^\n]{{{LINE_LIMIT}}}|(?s:.{{1,64}})[^\n]{{0,{LINE_LIMIT}}}\n?")


def _folded(text: str) -> str:
    """Small letters of one byte at the same places, digits alike: quick to look through."""
    return text.encode("ascii", "replace").translate(_FOLD).decode("ascii")


_FOLD = bytes.maketrans(
    b"ABCDEFGHIJKLMNOPQRSTUVWXYZ123456789", b"abcdefghijklmnopqrstuvwxyz000000000"
)


def _has_landmark(lowered: str) -> bool:
    for word in LANDMARKS:  # noqa: SIM110 - any() takes twice the time, most of all is spent here
        if word in lowered:
            return True
    return False
