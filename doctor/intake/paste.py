"""Pasted text: one output, or a whole bug report that holds several between its prose."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.facts import Facts
from doctor.intake.formats import FORMATS, Format
from doctor.intake.formats.engine_log import shows_failure
from doctor.intake.merge import merge

_FENCE = re.compile(r"^[ \t>]{0,12}(?:`{3,12}|~{3,12})[^\n`]{0,60}$", re.MULTILINE)
_PROMPT = re.compile(
    r"^(?:\([\w./-]{1,60}\) ?)?"
    r"(?:[\w.-]{1,60}@[\w.-]{1,60}[: ][^\n$#]{0,120}[$#]|[\w./~-]{0,40}\$) \S[^\n]*$",
    re.MULTILINE,
)
_MAX_BLOCKS = 400
_LOG = FORMATS[-1]


def read_paste(text: str) -> tuple[Facts, tuple[str, ...]]:
    """Facts of all outputs in the text, and the names of their formats, each once."""
    parts: list[Facts] = []
    names: list[str] = []
    for block in _blocks(text):
        for kind in _fitting(block):
            facts = kind.parse(block)
            if facts != Facts():
                parts.append(facts)
                names.append(kind.name)
    return merge(*parts), tuple(dict.fromkeys(names))


def _blocks(text: str) -> Iterator[str]:
    """Fenced blocks and what lies between them, cut again where a prompt begins a command."""
    pieces = _FENCE.split(text, _MAX_BLOCKS) if "```" in text or "~~~" in text else [text]
    for piece in pieces:
        starts = [match.start() for match in _PROMPT.finditer(piece)][:_MAX_BLOCKS]
        for start, end in zip([0, *starts], [*starts, len(piece)], strict=True):
            block = piece[start:end]
            if block.strip():
                yield block


def _fitting(block: str) -> list[Format]:
    """Formats that a block holds; of those without a heading the first, and only if alone."""
    strict = [kind for kind in FORMATS if not kind.loose and kind.looks_like(block)]
    if strict:
        # An output and a failure below it may stand in one block.
        return [*strict, _LOG] if shows_failure(block) else strict
    return [kind for kind in FORMATS if kind.loose and kind.looks_like(block)][:1]
