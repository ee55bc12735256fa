"""requirements.txt as pip reads it: continued lines, options, and the files that it includes."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

from doctor.intake.formats.requirements import applies, required_package, requirement
from doctor.intake.wanted import Files, Wanted, at_line, label_of_index, no_files, placed

_COMMENT = re.compile(r"(?:^|\s)#.*$")
_OPTION = re.compile(r"(?:^|\s)--(?:hash|config-settings?|global-option|install-option)[= ].*$")
_INCLUDE = ("-r", "--requirement")
_CONSTRAIN = ("-c", "--constraint")
_INDEX = ("-i", "--index-url", "--extra-index-url", "-f", "--find-links")
_DEEPEST, _MOST_LINES, _LONGEST = 5, 50_000, 4000


def read_requirements(text: str, name: str, files: Files = no_files, depth: int = 0) -> Wanted:
    """What the file asks for, with the files that it includes."""
    wanted = Wanted()
    for number, line in logical_lines(text):
        option, _, value = line.partition("=" if line.startswith("--") and "=" in line else " ")
        if line.startswith("-"):
            found = _option(option.strip(), value.strip(), (name, number), files, depth)
        else:
            found = _package(line, name, number)
        wanted = wanted.then(found)
    return wanted


def logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Lines with their numbers, continued ones joined, comments and blank ones left out."""
    held, start = "", 0
    for number, raw in enumerate(text.split("\n")[:_MOST_LINES], 1):
        line = _COMMENT.sub("", raw.rstrip("\r")[:_LONGEST]).rstrip()
        start = start if held else number
        if line.endswith("\\"):
            held = (held + line[:-1])[:_LONGEST]
            continue
        whole, held = (held + line).strip(), ""
        if whole:
            yield start, whole


def _package(line: str, name: str, number: int) -> Wanted:
    found = requirement(_OPTION.sub("", line).strip())
    if found is None:
        return Wanted(notes=(f"{at_line(name, number)}: not understood: {line[:80]}",))
    if not applies(found):
        return Wanted()
    return Wanted((placed(required_package(found), name, number),))


def _option(option: str, value: str, place: tuple[str, int], files: Files, depth: int) -> Wanted:
    """An index that selects a build, or another file; its constraints count as bounds."""
    name, number = place
    if option in _INDEX:
        label = label_of_index(value)
        return Wanted(label=label, label_at=at_line(name, number)) if label else Wanted()
    if option not in (*_INCLUDE, *_CONSTRAIN):
        return Wanted()
    found = files(unquoted(value), name) if depth < _DEEPEST else None
    if found is None:
        return Wanted(notes=(f"{at_line(name, number)}: {value[:80]} is not read",))
    inner = read_requirements(found[1], found[0], files, depth + 1)
    # A constraint asks for nothing by itself.
    return inner if option in _INCLUDE else Wanted(label=inner.label, label_at=inner.label_at)


def unquoted(value: str) -> str:
    """A word as a shell would pass it on."""
    try:
        words = shlex.split(value)
    except ValueError:
        return value
    return words[0] if words else ""
