"""Pasted text: one output, or a whole bug report that holds several between its prose."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice, pairwise

from doctor.facts import Facts, Workload, seen
from doctor.facts.engines import carriers
from doctor.intake.formats import FORMATS, Format
from doctor.intake.formats.engine_log import shows_failure
from doctor.intake.merge import merge
from doctor.probes.tool_text import LIMIT

_FENCE = re.compile(r"^[ \t>]{0,12}(?:`{3,12}|~{3,12})[^\n`]{0,60}$", re.MULTILINE)
_PROMPT = re.compile(
    r"^(?:\([\w./-]{1,60}\) ?)?"
    r"(?:[\w.-]{1,60}@[\w.-]{1,60}[: ][^\n$#]{0,120}[$#]|[\w./~-]{0,40}\$) \S[^\n]*$",
    re.MULTILINE,
)
# A line that shows a file is no part of it; lists of distributions are told by theirs.
_SHOWS = re.compile(r"[^\n]{0,200}[$#] (?:cat|less|more) (?![^\n]{0,200}requirements)\S[^\n]*\n")
_MAX_BLOCKS = 400
# A text may hold an output more than once, from several hosts or times; not without end.
_MOST = 6
_STRICT = tuple(kind for kind in FORMATS if not kind.loose)
_LOOSE = tuple(kind for kind in FORMATS if kind.loose)
_LOG = FORMATS[-1]


def read_paste(text: str) -> tuple[Facts, tuple[str, ...]]:
    """Facts of all outputs in the text, and the names of their formats, each once."""
    parts: list[Facts] = []
    names: Counter[str] = Counter()
    for block in _blocks(text):
        for kind, part in _fitting(block):
            if names[kind.name] < _MOST:
                facts = kind.parse(part)
                if facts != Facts():
                    parts.append(facts)
                    names[kind.name] += 1
    return with_versions(merge(*parts)), tuple(names)


def with_versions(facts: Facts) -> Facts:
    """Give each workload the version of its engine's distribution, where nothing else said one."""
    return replace(facts, workloads=tuple(_versioned(facts, w) for w in facts.workloads))


def _versioned(facts: Facts, workload: Workload) -> Workload:
    scope = facts.scope(workload.scope)
    found = scope.package(*carriers(workload.engine)) if scope else None
    if workload.version.is_known or found is None or found.version is None:
        return workload
    return replace(workload, version=seen(found.version, scope.packages.at if scope else ""))


def _blocks(text: str) -> Iterator[str]:
    """Fenced blocks and what lies between them, cut again where a prompt begins a command.

    Only the beginning of a long text is cut: what follows is most of a log, and stays whole.
    """
    head = text[:LIMIT]
    ends = [m.span() for m in islice(_FENCE.finditer(head), _MAX_BLOCKS)] if "```" in head else []
    starts = [m.start() for m in islice(_PROMPT.finditer(head), _MAX_BLOCKS)]
    cuts = sorted({(0, 0), *ends, *((start, start) for start in starts)})
    for (_, begin), (end, _) in pairwise([*cuts, (len(text), len(text))]):
        block = text[begin:end]
        shown = _SHOWS.match(block)
        block = block[shown.end() :] if shown else block
        if block.strip():
            yield block


def _fitting(block: str) -> list[tuple[Format, str]]:
    """Formats that a block holds, each with as much of the block as it may read.

    Of those without a heading the first counts, and only where nothing else fits.
    """
    head, longer = block[:LIMIT], block[: 4 * LIMIT]
    read = ((kind, longer if kind.long else head) for kind in _STRICT)
    strict = [(kind, part) for kind, part in read if kind.fits(part)]
    if strict:
        # An output and a failure below it may stand in one block.
        return [*strict, (_LOG, block)] if shows_failure(block) else strict
    return [(kind, block) for kind in _LOOSE if kind.fits(block)][:1]
