"""Texts as people hand them over: other quotes and blanks, and lines that were broken."""

from __future__ import annotations

from itertools import pairwise


def lowered(text: str) -> str:
    """Small letters at the same places, quotes and blanks as a keyboard has them.

    One letter alone would become two. Word processors and web pages change the others.
    """
    if text.isascii():
        return text.lower()
    for typed, others in _TYPED:
        for other in others:
            text = text.replace(other, typed)
    return text.replace("\u0130", "i").lower()


_TYPED = (
    ("'", "\u2018\u2019\u02bc\u2032\u00b4"),
    ('"', "\u201c\u201d\u201e\u2033"),
    (" ", "\u00a0\u2002\u2003\u2009\u202f\u3000"),
    ("-", "\u2010\u2011\u2013"),
)


def readings(text: str) -> tuple[str, ...]:
    """The text, and if it is short, as one line: a mail or a terminal may have broken its lines.

    As one line first if all its lines are as long as such a break leaves them.
    """
    lines = text.strip().split("\n")
    if len(text) > _WRAPPED or len(lines) < 2:
        return (text,)
    broken, flowed = "".join(lines), " ".join(line.strip() for line in lines)
    widest = max(len(line) for line in lines)
    if widest < _NARROW:
        return text, flowed, broken
    if all(len(line) == widest for line in lines[:-1]) and (len(lines) > 2 or widest in _WIDTHS):
        return broken, text, flowed
    pairs = pairwise(lines)
    if widest <= _MAIL and all(_flows(line, after, widest) for line, after in pairs):
        return flowed, text, broken
    return text, flowed, broken


def _flows(line: str, after: str, width: int) -> bool:
    """The next line goes on in small letters, and its first word had no room in this one."""
    return after[:1].islower() and len(line) + 1 + len(after.split(maxsplit=1)[0]) > width


# A text up to this length may be a message that was broken into lines.
_WRAPPED = 4096
# Characters of a line that was broken: at least, and at most in a mail.
_NARROW, _MAIL = 60, 80
# Usual widths of a terminal.
_WIDTHS = (80, 100, 120, 132)
