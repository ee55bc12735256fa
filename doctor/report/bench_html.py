"""The result of `doctor bench` as a page: curves of the sweep, how times are spread, tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

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
    rate_text,
    share_text,
    time_text,
)
from doctor.report.html_page import esc, icon, page
from doctor.report.plot import Chart, Line, draw, nice_step
from doctor.smoke.bench.figures import Level, Spread, quantile
from doctor.smoke.bench.outcome import BenchOutcome, BenchVerdict

_TONES = {
    BenchVerdict.MEASURED: "ok",
    BenchVerdict.MISSED: "error",
    BenchVerdict.REGRESSED: "error",
    BenchVerdict.NOT_MEASURED: "error",
    BenchVerdict.INTERRUPTED: "warning",
}
_JUDGED = {"ok": "ok", "FAIL": "error", "warn": "warning", "-": "none"}
_CHANGED = {"better": "ok", "the same": "none", "WORSE": "error", "too noisy to say": "warning"}
_CURVE = 60


def render(outcome: BenchOutcome, _style: Style) -> str:
    """One page that loads nothing."""
    title = TITLES[outcome.verdict]
    body = (
        f'{_head(outcome, title)}<main class="wrap" id="main" tabindex="-1">'
        f"{_charts(outcome)}{_table_of_loads(outcome)}{_targets(outcome)}"
        f"{_comparison(outcome)}{_notes(outcome)}</main>"
    )
    return page(f"bench: {title}", body, "chart.css")


def _head(outcome: BenchOutcome, title: str) -> str:
    tone = _TONES[outcome.verdict]
    where = f"{outcome.model or '(no name)'} at {outcome.url}"
    sentence = knee_text(outcome) or lengths_text(outcome)
    return (
        f'<header class="top"><div class="wrap"><p class="brand"><b>doctor bench</b> '
        f"<span>{esc(where)}</span> <span>{esc(outcome.began)}</span></p>"
        f'<div class="verdict {tone}">{icon(tone)}<h1><b>{esc(title.capitalize())}.</b></h1></div>'
        f'<p class="note">{esc(sentence)}</p></div></header>'
    )


def _charts(outcome: BenchOutcome) -> str:
    figures = [*_sweep(outcome), *_spreads(outcome)]
    return f'<section class="charts">{"".join(figures)}</section>' if figures else ""


def _sweep(outcome: BenchOutcome) -> Iterator[str]:
    """Curves over the loads; a single load has none."""
    levels = outcome.levels
    if len(levels) < 2:
        return
    yield _curve(outcome, "Throughput, tokens a second", rate_text, [("", lambda v: v.output_rate)])
    for title, pick in (
        ("Time to the first token (TTFT)", lambda v: v.ttft),
        ("Time for each further token (TPOT)", lambda v: v.tpot),
        ("Latency of a whole request", lambda v: v.latency),
    ):
        yield _curve(outcome, title, time_text, _percentiles(pick))


Pick = Callable[[Level], Spread | None]
Value = Callable[[Level], float | None]


def _percentiles(pick: Pick) -> list[tuple[str, Value]]:
    def at(name: str) -> Value:
        def value(level: Level) -> float | None:
            found = pick(level)
            return None if found is None else float(getattr(found, name))

        return value

    return [(name, at(name)) for name in ("p50", "p95", "p99")]


def _curve(
    outcome: BenchOutcome,
    title: str,
    show: Callable[[float], str],
    values: Sequence[tuple[str, Value]],
) -> str:
    levels = list(enumerate(outcome.levels))
    lines = []
    for name, value in values:
        seen = [(float(n), value(level)) for n, level in levels]
        lines.append(Line(name, tuple((x, y) for x, y in seen if y is not None)))
    knee = outcome.knee
    return draw(
        Chart(
            title=title,
            x_label="requests a second" if outcome.levels[0].load.is_open else "requests at once",
            ticks=tuple((float(n), f"{level.load.value:g}") for n, level in levels),
            lines=tuple(line for line in lines if line.points),
            show=show,
            mark=(float(knee.level), "knee") if knee and knee.is_reached else None,
        )
    )


def _spreads(outcome: BenchOutcome) -> Iterator[str]:
    """How times are spread at the load that was judged."""
    if outcome.judged is None:
        return
    level = outcome.levels[outcome.judged]
    for name, values in (("TTFT", level.series.ttft), ("TPOT", level.series.tpot)):
        if len(values) > 1:
            yield _distribution(f"Requests by {name}, {level.load}", sorted(values))


def _distribution(title: str, ordered: Sequence[float]) -> str:
    shares = [n / _CURVE for n in range(_CURVE + 1)]
    points = tuple((quantile(ordered, share), share) for share in shares)
    step = nice_step(ordered[-1], 4)
    ticks = tuple((n * step, time_text(n * step)) for n in range(int(ordered[-1] / step) + 1))
    return draw(
        Chart(title, "at most so long", ticks, (Line("", points, False),), share_text, top=1.0)
    )


def _table_of_loads(outcome: BenchOutcome) -> str:
    if not outcome.levels:
        return ""
    rows = [cells(level) for level in outcome.levels]
    errors = [error_text(level) for level in outcome.levels if level.errors]
    inside = f'{_table(HEADINGS, rows)}<p class="note">{esc(lengths_text(outcome))}</p>'
    return _card("Loads", inside + _list(errors))


def _targets(outcome: BenchOutcome) -> str:
    if outcome.judged is None:
        return ""
    rows = []
    for found in outcome.judgements:
        tone = _JUDGED[judgement_word(found)]
        missed = f" {esc(found.remedy)}." if tone in ("error", "warning") else ""
        rows.append(
            f'<li class="{tone}">{icon(tone)}<span>{esc(judgement_text(found))}.{missed} '
            f'<span class="note">{esc(found.source)}</span></span></li>'
        )
    load = outcome.levels[outcome.judged].load
    return _card(f"Targets, {load}", f'<ul class="judged">{"".join(rows)}</ul>')


def _comparison(outcome: BenchOutcome) -> str:
    found = outcome.comparison
    if found is None:
        return ""
    rows = [difference_text(difference) for difference in found.differences]
    tones = [_CHANGED[row[-1]] for row in rows]
    headings = ("load", "figure", "old", "new", "change (99 % bounds)", "verdict")
    table = _table(headings, rows, tones)
    return _card("Comparison", f"<p>{esc(comparison_text(found))}</p>{table}{_list(found.notes)}")


def _notes(outcome: BenchOutcome) -> str:
    return _card("Notes", _list(outcome.notes)) if outcome.notes else ""


def _card(title: str, inside: str) -> str:
    return f'<section class="card"><h2>{esc(title)}</h2>{inside}</section>'


def _table(
    headings: Sequence[str], rows: Sequence[Sequence[str]], tones: Sequence[str] = ()
) -> str:
    head = "".join(f'<th scope="col">{esc(heading)}</th>' for heading in headings)
    body = "".join(_row(row, tones[n] if n < len(tones) else "") for n, row in enumerate(rows))
    return (
        f'<div class="scroll" tabindex="0"><table class="numbers"><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def _row(row: Sequence[str], tone: str) -> str:
    first, *others = (esc(cell) for cell in row)
    cells_of = "".join(f"<td>{cell}</td>" for cell in others)
    return f'<tr class="{tone}"><th scope="row">{first}</th>{cells_of}</tr>'


def _list(texts: Sequence[str]) -> str:
    return f"<ul>{''.join(f'<li>{esc(text)}</li>' for text in texts)}</ul>" if texts else ""
