"""The result of `doctor bench` as JSON, `doctor/bench/v1`; a later run can compare with it."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

import doctor
from doctor.report import Style
from doctor.smoke.bench.baseline import SCHEMA
from doctor.smoke.bench.comparison import Comparison
from doctor.smoke.bench.figures import Level, Series
from doctor.smoke.bench.outcome import BenchOutcome, digest

_DIGITS = 6


def render(outcome: BenchOutcome, _style: Style) -> str:
    """One JSON document; times are seconds, rates per second, shares 0 to 1."""
    return json.dumps(to_data(outcome), ensure_ascii=False, indent=1) + "\n"


def to_data(outcome: BenchOutcome) -> dict[str, Any]:
    """The outcome as plain JSON values."""
    lengths = outcome.lengths
    data = {
        "schema": SCHEMA,
        "doctor": doctor.__version__,
        "verdict": outcome.verdict.value,
        "url": outcome.url,
        "model": outcome.model,
        "began": outcome.began,
        "seconds": outcome.seconds,
        "interrupted": outcome.interrupted,
        "lengths": {
            "name": lengths.name,
            "source": lengths.source,
            "digest": digest(lengths),
            "context": outcome.context,
            "forced": outcome.forced,
        },
        "interface": "chat" if outcome.chat else "completions",
        "seed": outcome.seed,
        "loads": [_level(level) for level in outcome.levels],
        "knee": asdict(outcome.knee) if outcome.knee else None,
        "judged": outcome.judged,
        "targets": [{**asdict(j), "state": j.state.value} for j in outcome.judgements],
        "comparison": _comparison(outcome.comparison) if outcome.comparison else None,
        "notes": list(outcome.notes),
    }
    rounded: dict[str, Any] = _rounded(data)
    return rounded


def _level(level: Level) -> dict[str, Any]:
    data = asdict(level)
    del data["load"], data["series"]
    load = {"users": level.load.users, "rate": level.load.rate}
    return {**load, **data, "error_rate": level.error_rate, "series": _series(level.series)}


def _series(series: Series) -> dict[str, Any]:
    return {name: list(values) for name, values in asdict(series).items()}


def _comparison(found: Comparison) -> dict[str, Any]:
    rows = [
        {
            "users": row.load.users,
            "rate": row.load.rate,
            "figure": row.figure,
            "old": row.old,
            "new": row.new,
            "ratio": asdict(row.ratio),
            "change": row.change.value,
        }
        for row in found.differences
    ]
    return {
        "with": list(found.names),
        "tolerance": found.tolerance,
        "is_worse": found.is_worse,
        "differences": rows,
        "notes": list(found.notes),
    }


def _rounded(value: Any) -> Any:
    """Microseconds are enough; more digits would only be noise."""
    if isinstance(value, float):
        return round(value, _DIGITS)
    if isinstance(value, dict):
        return {name: _rounded(item) for name, item in value.items()}
    return [_rounded(item) for item in value] if isinstance(value, (list, tuple)) else value
