"""The report of `doctor bench` for a terminal, and the table of its formats."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module

from doctor.report import Style
from doctor.report.bench_words import (
    HEADINGS,
    TITLES,
    cells,
    comparison_text,
    difference_text,
    error_text,
    judgement_text,
    judgement_word,
    knee_text,
    lengths_text,
)
from doctor.report.clean import clean_line
from doctor.smoke.bench.judge import State
from doctor.smoke.bench.outcome import BenchOutcome, BenchVerdict

Renderer = Callable[[BenchOutcome, Style], str]

FORMATS: dict[str, str] = {
    "text": "doctor.report.bench",
    "json": "doctor.report.bench_json",
    "markdown": "doctor.report.bench_markdown",
    "html": "doctor.report.bench_html",
}
_CODES = {"FAIL": "31", "WORSE": "31", "warn": "33", "ok": "32", "better": "32"}
# What a narrow page leaves out, in this order: places in HEADINGS.
_SPARE = ((6, 9), (4,), (11, 12), (14,), (13,))
_KNEE = "  <- knee"


def renderer(name: str) -> Renderer:
    """The `render` of a format; imported only when it is asked for."""
    render: Renderer = import_module(FORMATS[name]).render
    return render


def render(outcome: BenchOutcome, style: Style) -> str:
    """A table of the loads, then what it means."""
    lines = [
        clean_line(f"bench {outcome.model or '(no name)'} at {outcome.url}"),
        clean_line(lengths_text(outcome)),
        "",
        *_loads(outcome, style),
        *_meaning(outcome, style),
        *_comparison(outcome, style),
        *_notes(outcome, style),
        "",
        _verdict(outcome, style),
    ]
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _loads(outcome: BenchOutcome, style: Style) -> Iterator[str]:
    if not outcome.levels:
        return
    rows: Sequence[Sequence[str]] = [HEADINGS, *map(cells, outcome.levels)]
    # The knee's mark stands beside the table.
    rows = rows if style.verbose else _fitted(rows, style.width - len(_KNEE))
    knee = outcome.knee.level + 1 if outcome.knee and outcome.knee.is_reached else None
    for place, line in enumerate(_table(rows)):
        yield line + (_KNEE if place == knee else "")
    yield ""


def _fitted(rows: Sequence[Sequence[str]], width: int) -> Sequence[Sequence[str]]:
    """The rows without columns in which nothing stands, and no wider than the page if possible."""
    dropped = {n for n in range(len(HEADINGS)) if all(row[n] == "-" for row in rows[1:])}
    kept = _without(rows, dropped)
    for spare in _SPARE:
        if len(next(_table(kept))) <= width:
            break
        dropped.update(spare)
        kept = _without(rows, dropped)
    return kept


def _without(rows: Sequence[Sequence[str]], dropped: set[int]) -> list[list[str]]:
    return [[cell for n, cell in enumerate(row) if n not in dropped] for row in rows]


def _table(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Columns as wide as they need be; the first to the left, the others to the right."""
    widths = [max(len(row[n]) for row in rows) for n in range(len(rows[0]))]
    for row in rows:
        first, *others = zip(row, widths, strict=True)
        yield "  ".join(
            [f"{first[0]:<{first[1]}}", *(f"{text:>{width}}" for text, width in others)]
        )


def _meaning(outcome: BenchOutcome, style: Style) -> Iterator[str]:
    if knee_text(outcome):
        yield from _wrapped(knee_text(outcome), style, 0)
    for level in outcome.levels:
        if level.errors:
            yield from _wrapped(error_text(level), style, 2)
    if outcome.judged is None:
        return
    yield f"targets at {outcome.levels[outcome.judged].load}"
    for found in outcome.judgements:
        word = judgement_word(found)
        yield f"  {_paint(f'{word:<5}', word, style)}{judgement_text(found)}"
        if found.state is State.MISSED:
            yield from _wrapped(found.remedy, style, 7)
        if style.verbose:
            yield from _wrapped(f"source: {found.source}", style, 7)


def _comparison(outcome: BenchOutcome, style: Style) -> Iterator[str]:
    found = outcome.comparison
    if found is None:
        return
    yield ""
    yield from _wrapped(comparison_text(found), style, 0)
    rows = [difference_text(difference) for difference in found.differences]
    for line, row in zip(_table(rows) if rows else (), rows, strict=True):
        yield f"  {_paint(line, row[-1], style)}"
    for note in found.notes:
        yield from _wrapped(note, style, 2)


def _notes(outcome: BenchOutcome, style: Style) -> Iterator[str]:
    if outcome.notes:
        yield ""
    for note in outcome.notes:
        yield from _wrapped(f"note: {note}", style, 2)


def _verdict(outcome: BenchOutcome, style: Style) -> str:
    bad = outcome.verdict not in (BenchVerdict.MEASURED, BenchVerdict.INTERRUPTED)
    title = _paint(TITLES[outcome.verdict], "FAIL" if bad else "", style)
    return f"{title}, {outcome.seconds:.1f} s"


def _paint(text: str, word: str, style: Style) -> str:
    code = _CODES.get(word)
    return f"\x1b[{code}m{text}\x1b[0m" if style.colour and code else text


def _wrapped(text: str, style: Style, indent: int) -> list[str]:
    margin = " " * indent
    room = max(style.width, 40)
    return textwrap.wrap(
        clean_line(text, 2000), room, initial_indent=margin, subsequent_indent=margin
    )
