"""The text of a Dockerfile as instructions: directives, comments, continued lines, heredocs.

Source: Dockerfile reference, "Format", "Parser directives", "Here-Documents", "Environment
replacement".
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

_ESCAPE = re.compile(r"#\s{0,9}escape\s{0,9}=\s{0,9}([\\`])\s*", re.IGNORECASE)
_DIRECTIVE = re.compile(r"#\s{0,9}\w{1,30}\s{0,9}=.{0,200}")
_KEYWORD = re.compile(r"\s{0,400}([A-Za-z]{2,20})(?:\s+|$)")
_HEREDOC = re.compile(r"(?<!<)<<(-?)([\"']?)([A-Za-z_]\w{0,60})\2")
_VARIABLE = re.compile(
    r"\\(?P<escaped>\$)|\$(?:(?P<plain>[A-Za-z_]\w{0,100})"
    r"|\{(?P<braced>[A-Za-z_]\w{0,100})(?::?(?P<operator>[-+])(?P<word>[^{}]{0,300}))?\})"
)
MOST_LINES = 2000
_LONGEST = 200_000


@dataclass(frozen=True)
class Instruction:
    """One instruction: `text` is what follows its keyword, `line` where it begins.

    `starts` are the places in the text at which further lines begin, `heredocs` their texts
    with the lines at which they begin.
    """

    keyword: str
    text: str
    line: int
    starts: tuple[tuple[int, int], ...] = ()
    heredocs: tuple[tuple[int, str], ...] = ()

    def line_at(self, place: int) -> int:
        """The line of the file on which a place of the text stands."""
        index = bisect_right(self.starts, (place, 1 << 30)) - 1
        return self.starts[index][1] if index >= 0 else self.line


def instructions(text: str) -> tuple[Instruction, ...]:
    """The instructions of the first 2000 lines, in order; what is none is passed over."""
    return tuple(_instructions(text.split("\n", MOST_LINES)[:MOST_LINES]))


def _instructions(lines: list[str]) -> Iterator[Instruction]:
    escape, number = _escape(lines), 0
    while number < len(lines):
        pieces, number = _joined(lines, number, escape)
        match = _KEYWORD.match(pieces[0][1]) if pieces else None
        if match is None:
            continue
        first = (pieces[0][0], pieces[0][1][match.end() :])
        text, starts = _laid_out([first, *pieces[1:]])
        heredocs: tuple[tuple[int, str], ...] = ()
        if match[1].upper() in ("RUN", "COPY", "ADD"):
            heredocs, number = _heredocs(text, lines, number)
        yield Instruction(match[1].upper(), text, pieces[0][0], starts, heredocs)


def _escape(lines: list[str]) -> str:
    """The character that continues a line: a directive at the top may change it."""
    for line in lines[:5]:
        match = _ESCAPE.fullmatch(line.strip())
        if match:
            return match[1]
        if not _DIRECTIVE.fullmatch(line.strip()):
            break
    return "\\"


def _joined(lines: list[str], number: int, escape: str) -> tuple[list[tuple[int, str]], int]:
    """The lines of one instruction with their numbers; comments between them do not count."""
    pieces: list[tuple[int, str]] = []
    while number < len(lines):
        line = lines[number].rstrip("\r")
        number += 1
        bare = line.strip()
        if bare.startswith("#") or (not bare and pieces):
            continue
        if not bare:
            break
        goes_on = bare.endswith(escape)
        pieces.append((number, line.rstrip()[:-1] if goes_on else line))
        if not goes_on:
            break
    return pieces, number


def _laid_out(pieces: list[tuple[int, str]]) -> tuple[str, tuple[tuple[int, int], ...]]:
    text, starts = "", []
    for number, piece in pieces:
        starts.append((len(text), number))
        text = f"{text}{piece} "[:_LONGEST]
    return text.rstrip(), tuple(starts)


def _heredocs(text: str, lines: list[str], number: int) -> tuple[tuple[tuple[int, str], ...], int]:
    """The bodies that follow an instruction, each up to the word that ends it."""
    found = []
    for match in list(_HEREDOC.finditer(text))[:20]:
        begin, body = number + 1, []
        while number < len(lines):
            line = lines[number].rstrip("\r")
            number += 1
            shown = line.lstrip("\t") if match[1] else line
            if shown == match[3]:
                break
            body.append(shown)
        found.append((begin, "\n".join(body)))
    return tuple(found), number


def expand(text: str, values: Mapping[str, str]) -> str:
    """Put values in the place of $NAME, ${NAME}, ${NAME:-word} and ${NAME:+word}.

    What has no value stays as it is written: it is not known.
    """

    def replaced(match: re.Match[str]) -> str:
        if match["escaped"]:
            return "$"
        name = match["plain"] or match["braced"]
        value, operator, word = values.get(name), match["operator"], match["word"] or ""
        if operator == "-":
            return value or expand(word, values)
        if operator == "+":
            return expand(word, values) if value else ""
        return match[0] if value is None else value

    return _VARIABLE.sub(replaced, text[:_LONGEST]) if "$" in text else text
