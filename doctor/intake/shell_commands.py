"""Simple commands of a shell line, as words with the places at which they begin. Runs nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from doctor.intake.docker_lines import expand

_TOKEN = re.compile(
    r"(?P<end>&&|\|\||[;&|\n()])|(?P<redirect>\d?(?:>>|>&|<<<|[<>]))"
    r"|(?P<word>(?:[^\s;&|()<>'\"\\]|\\.|'[^']{0,4000}'|\"(?:[^\"\\]|\\.){0,4000}\")+)"
    r"|(?P<comment>(?<!\S)#[^\n]*)",
    re.DOTALL,
)
_PART = re.compile(r"\\(.)|'([^']*)'|\"((?:[^\"\\]|\\.)*)\"|([^\\'\"]+)", re.DOTALL)
_ASSIGNMENT = re.compile(r"([A-Za-z_]\w{0,100})=(.*)", re.DOTALL)
_PREFIXES = ("sudo", "exec", "time", "nice", "env", "then", "do", "else", "!", "{")
_MOST = 5000


@dataclass(frozen=True)
class Command:
    """One command: its words, what was assigned before it, and where it begins in the text."""

    words: tuple[str, ...]
    env: dict[str, str]
    place: int
    places: tuple[int, ...] = ()


def commands(text: str, values: Mapping[str, str]) -> Iterator[Command]:
    """The commands of a text, in order; `values` are put in the place of variables."""
    words: list[tuple[int, str]] = []
    skip = False
    for number, match in enumerate(_TOKEN.finditer(text)):
        if number > _MOST or match["end"]:
            yield from _command(words)
            words = []
            if number > _MOST:
                return
        elif match["redirect"]:
            skip = True
        elif match["comment"]:
            continue
        elif skip:
            skip = False  # the file of a redirection: `pip install torch>=2` writes "=2"
        else:
            words.append((match.start(), _plain(match["word"], values)))
    yield from _command(words)


def _plain(word: str, values: Mapping[str, str]) -> str:
    """A word without its quotes; variables in single quotes stay."""
    parts = []
    for escaped, single, double, bare in _PART.findall(word):
        if escaped:
            parts.append("" if escaped == "\n" else escaped)
        elif double:
            parts.append(expand(double.replace('\\"', '"'), values))
        else:
            parts.append(single or expand(bare, values))
    return "".join(parts)


def _command(words: list[tuple[int, str]]) -> Iterator[Command]:
    env: dict[str, str] = {}
    rest = list(words)
    while rest:
        assigned = _ASSIGNMENT.fullmatch(rest[0][1])
        if assigned:
            env[assigned[1]] = assigned[2]
        elif rest[0][1] not in _PREFIXES:
            break
        rest = rest[1:]
    if rest:
        places = tuple(place for place, _ in rest)
        yield Command(tuple(word for _, word in rest), env, places[0], places)
