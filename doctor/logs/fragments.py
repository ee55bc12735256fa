"""Messages of which a text holds only a part: cut off at an end of the line, or quoted in part."""

from __future__ import annotations

from collections.abc import Iterator

from doctor.logs.match import BRIEF, LogMatch
from doctor.logs.text import LogText
from doctor.logs.typed import lowered
from doctor.matrix.catalogue import Signature

# Of a literal so many letters, and of ten so many, must be there.
_LEAST, _TENTHS = 20, 6


def find_fragments(
    log: LogText, signatures: tuple[Signature, ...], engine: str = ""
) -> list[LogMatch]:
    """Signatures of which a line of a short text holds a part, the longest parts first."""
    if len(log.plain) > BRIEF:
        return []
    lines = [line for line in log.lowered.split("\n") if len(line.strip()) >= _LEAST]
    asked = (s for s in signatures if not (s.engines and engine) or engine in s.engines)
    found = [
        (length, LogMatch(signature, line.strip(), 0, True, log.lowered.find(line), True))
        for signature in asked
        for line in lines
        if (length := _longest(line.strip(), signature))
    ]
    return [match for _, match in sorted(found, key=lambda item: -item[0])]


def _longest(line: str, signature: Signature) -> int:
    if signature.brief or signature.all:
        return 0
    return max((n for each in signature.any for n in _parts(line, lowered(each))), default=0)


def _parts(line: str, literal: str) -> Iterator[int]:
    """Lengths of the parts of the literal that the line is, begins with or ends with."""
    least = max(_LEAST, len(literal) * _TENTHS // 10)
    if len(literal) < least:
        return
    if least <= len(line) and line in literal:
        yield len(line)
    tail = literal.find(line[:_LEAST])
    if tail > 0 and len(literal) - tail >= least and line.startswith(literal[tail:]):
        yield len(literal) - tail
    head = literal.find(line[-_LEAST:]) + _LEAST
    if _LEAST <= head < len(literal) and head >= least and line.endswith(literal[:head]):
        yield head
