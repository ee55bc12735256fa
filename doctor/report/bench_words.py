"""Words and numbers that all reports of `doctor bench` share."""

from __future__ import annotations

from collections.abc import Sequence

from doctor.smoke.bench.comparison import Change, Comparison, Difference
from doctor.smoke.bench.figures import Level, Spread
from doctor.smoke.bench.judge import Judgement, State
from doctor.smoke.bench.knee import SHARE
from doctor.smoke.bench.outcome import BenchOutcome, BenchVerdict

TITLES = {
    BenchVerdict.MEASURED: "measured",
    BenchVerdict.MISSED: "a target is missed",
    BenchVerdict.REGRESSED: "worse than the baseline",
    BenchVerdict.NOT_MEASURED: "nothing was measured: no request succeeded",
    BenchVerdict.INTERRUPTED: "interrupted: this is what there was",
}
CHANGES = {
    Change.BETTER: "better",
    Change.SAME: "the same",
    Change.WORSE: "WORSE",
    Change.UNCLEAR: "too noisy to say",
}
HEADINGS = (
    "load", "requests", "failed", "tokens/s", "requests/s", "TTFT p50", "p95", "p99",
    "TPOT p50", "p95", "p99", "latency p50", "p99", "KV", "waiting",
)  # fmt: skip


def time_text(seconds: float | None) -> str:
    """Three figures with a unit: "1.56 s", "48.2 ms"; "-" for None."""
    if seconds is None:
        return "-"
    if abs(seconds) >= 1:
        return f"{seconds:.3g} s" if seconds < 1000 else f"{seconds:.0f} s"
    return f"{seconds * 1000:.3g} ms" if seconds >= 1e-5 else "0 ms"


def rate_text(rate: float) -> str:
    """Three figures, no exponents."""
    return f"{rate:,.0f}" if rate >= 100 else f"{rate:.3g}"


def share_text(share: float | None) -> str:
    """A share as per cent, with a decimal where it is small."""
    if share is None:
        return "-"
    percent = 100 * share
    return f"{percent:.0f} %" if percent == 0 or percent >= 10 else f"{percent:.1f} %"


def cells(level: Level) -> tuple[str, ...]:
    """One load as a row under HEADINGS."""
    gauges = level.gauges.gauges if level.gauges else {}
    kv, waiting = gauges.get("kv_usage"), gauges.get("waiting")
    return (
        str(level.load),
        str(level.requests),
        str(level.requests - level.succeeded),
        rate_text(level.output_rate),
        rate_text(level.request_rate),
        *_marks(level.ttft, "p50", "p95", "p99"),
        *_marks(level.tpot, "p50", "p95", "p99"),
        *_marks(level.latency, "p50", "p99"),
        share_text(kv.high) if kv else "-",
        f"{waiting.high:.0f}" if waiting else "-",
    )


def _marks(spread: Spread | None, *names: str) -> list[str]:
    return [time_text(getattr(spread, name)) if spread else "-" for name in names]


def lengths_text(outcome: BenchOutcome) -> str:
    """Which lengths were asked for."""
    prompts, answers = ([p[n] for p in outcome.lengths.pairs] for n in (0, 1))
    middle = f"{_middle(prompts)} tokens of prompt, {_middle(answers)} of answer"
    kind = "chat" if outcome.chat else "completions"
    return f"lengths {outcome.lengths.name} (in the middle {middle}), {kind}"


def _middle(values: Sequence[int]) -> int:
    return sorted(values)[len(values) // 2]


def knee_text(outcome: BenchOutcome) -> str:
    """What the sweep says; "" for a single load."""
    knee = outcome.knee
    if knee is None:
        return ""
    found = outcome.levels[knee.level]
    if not knee.is_reached:
        return f"no knee: throughput still rose at {found.load}"
    best = max(level.output_rate for level in outcome.levels)
    return (
        f"knee at {found.load}: {rate_text(found.output_rate)} of at most {rate_text(best)} "
        f"tokens/s (at least {SHARE:.0%}); more load mostly adds waiting"
    )


def judgement_word(found: Judgement) -> str:
    """One word for the margin."""
    if found.state is State.MISSED:
        return "FAIL" if found.is_error else "warn"
    return "ok" if found.state is State.MET else "-"


def judgement_text(found: Judgement) -> str:
    """What was wanted, and what was seen."""
    show = time_text if found.unit == "s" else share_text
    bounds = []
    if found.low is not None:
        bounds.append(f"at least {show(found.low)}")
    if found.high is not None:
        bounds.append(f"at most {show(found.high)}")
    seen = "not seen from here" if found.value is None else show(found.value)
    return f"{found.what}: {seen} ({', '.join(bounds)})"


def difference_text(found: Difference) -> tuple[str, ...]:
    """Load, figure, old, new, change with its bounds, verdict."""
    show = rate_text if found.figure == "throughput" else time_text
    ratio = found.ratio
    percent = f"{_percent(ratio.value)} ({_percent(ratio.low)} to {_percent(ratio.high)})"
    return (
        str(found.load), found.figure, show(found.old), show(found.new), percent,
        CHANGES[found.change],
    )  # fmt: skip


def _percent(ratio: float) -> str:
    return f"{100 * (ratio - 1):+.1f} %" if ratio < 100 else "> 100 times"


def comparison_text(found: Comparison) -> str:
    """The comparison in one sentence."""
    counts = [
        f"{sum(1 for d in found.differences if d.change is change)} {CHANGES[change].lower()}"
        for change in Change
    ]
    names = ", ".join(found.names)
    return f"against {names}, changes of up to {share_text(found.tolerance)} apart: " + ", ".join(
        counts
    )


def error_text(level: Level) -> str:
    """The failures of a load; "" for none."""
    if not level.errors:
        return ""
    kinds = ", ".join(f"{count} {kind}" for kind, count in level.errors.items())
    return f"{level.load}: {kinds}; the first: {level.first_error}"
