"""Texts of a megabyte that are made to be slow: what a matcher of signatures would choke on."""

from __future__ import annotations

import random
from collections.abc import Callable

from doctor.matrix.catalogue import Signature

Signatures = tuple[Signature, ...]
MEGABYTE = 1 << 20


def _repeated(part: Callable[[random.Random], str], between: str) -> str:
    rnd, parts, size = random.Random(7), [], 0  # noqa: S311 - repeatable, not secret
    while size < MEGABYTE:
        parts.append(part(rnd))
        size += len(parts[-1]) + len(between)
    return between.join(parts)[:MEGABYTE]


def _literals(signatures: Signatures) -> list[str]:
    return [literal for s in signatures for literal in (*s.any, *s.all)]


def _words(signatures: Signatures) -> list[str]:
    return sorted({word for literal in _literals(signatures) for word in literal.split()})


def _unique(rnd: random.Random, letters: str, length: int) -> str:
    return "".join(rnd.choices(letters, k=length))


def _late(signatures: Signatures) -> str:
    """Lines that must each be looked at, then the words of all signatures."""
    lines = _repeated(lambda rnd: _unique(rnd, "bcdghjkpqsvwyz ", 63), "\n")
    return lines[: MEGABYTE - (110 << 10)] + _lines(signatures, "")


def _lines(signatures: Signatures, head: str) -> str:
    words = _words(signatures)
    return _repeated(lambda rnd: head + " ".join(rnd.choices(words, k=8)), "\n")


def _picked(choices: list[str], between: str, head: str = "") -> str:
    return _repeated(lambda rnd: head + rnd.choice(choices), between)


HOSTILE: dict[str, Callable[[Signatures], str]] = {
    "literals, one a line": lambda s: _picked(_literals(s), "\n"),
    "literals as information": lambda s: _picked(_literals(s), "\n", "INFO "),
    "literals in one line": lambda s: _picked(_literals(s), " "),
    "literals without their ends": lambda s: _picked([w[1:-1] for w in _literals(s)], "\n"),
    "words of literals, one a line": lambda s: _picked(_words(s), "\n"),
    "words of literals in one line": lambda s: _picked(_words(s), " "),
    "words of literals in lines": lambda s: _lines(s, ""),
    "words of literals as information": lambda s: _lines(s, "INFO "),
    "words of literals after much else": lambda s: _late(s)[:MEGABYTE],
    "one short line": lambda _: "cuda error\n" * (MEGABYTE // 11),
    "lines that differ": lambda _: _repeated(lambda r: f"ERROR {r.getrandbits(40):x} failed", "\n"),
    "words that differ": lambda _: _repeated(lambda r: f"{r.getrandbits(60):x} error", " "),
    "short lines that differ": lambda _: _repeated(lambda r: _unique(r, "abcdefgh", 5), "\n"),
    "no line": lambda _: "a" * MEGABYTE,
    "no letter": lambda _: "\n" * MEGABYTE,
    "carriage returns": lambda _: "error\r" * (MEGABYTE // 6),
    "escapes": lambda _: "\x1b[31merror\x1b[0m" * (MEGABYTE // 14),
    "letters that grow": lambda _: "\u0130" * MEGABYTE,
    "Chinese": lambda _: _repeated(lambda r: _unique(r, "驱动程序版本错误失败not ", 30), "\n"),
    "JSON": lambda _: _repeated(lambda r: f'{{"log":"error {r.getrandbits(30):x}\\n"}}', "\n"),
}
