"""The result of `doctor bench` as markdown, for a pull request or a release."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

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
from doctor.report.markdown import code, escape
from doctor.smoke.bench.outcome import BenchOutcome


def render(outcome: BenchOutcome, _style: Style) -> str:
    """The verdict as heading, then tables."""
    blocks = [
        f"## {escape(TITLES[outcome.verdict])}",
        f"{code(outcome.model or '(no name)')} at {code(outcome.url)}, "
        f"{escape(lengths_text(outcome))}, {outcome.seconds:.0f} s",
        *_blocks(outcome),
    ]
    return "\n\n".join(block for block in blocks if block) + "\n"


def _blocks(outcome: BenchOutcome) -> Iterator[str]:
    if outcome.levels:
        yield _table(HEADINGS, [cells(level) for level in outcome.levels])
    yield escape(knee_text(outcome))
    yield _list([error_text(level) for level in outcome.levels if level.errors])
    if outcome.judged is not None:
        yield f"### Targets at {escape(str(outcome.levels[outcome.judged].load))}"
        rows = [(judgement_word(j), judgement_text(j)) for j in outcome.judgements]
        yield _table(("", "target"), rows)
    found = outcome.comparison
    if found is not None:
        yield "### Comparison"
        yield escape(comparison_text(found))
        rows_of = [difference_text(difference) for difference in found.differences]
        yield _table(("load", "figure", "old", "new", "change (99 % bounds)", ""), rows_of)
        yield _list(found.notes)
    if outcome.notes:
        yield "### Notes"
        yield _list(outcome.notes)


def _table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [headings, ["---"] * len(headings)]
    escaped = [f"| {' | '.join(escape(cell) for cell in row)} |" for row in (headings, *rows)]
    rule = f"|{'|'.join(lines[1])}|"
    return "\n".join([escaped[0], rule, *escaped[1:]])


def _list(texts: Sequence[str]) -> str:
    return "\n".join(f"- {escape(text)}" for text in texts)
