"""This run against earlier ones: better, worse, the same, or too noisy to say. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

from doctor.smoke.bench.ask import Load
from doctor.smoke.bench.baseline import Saved
from doctor.smoke.bench.figures import Level, Series
from doctor.smoke.bench.noise import Ratio, Statistic, mean, median, p95, ratio


class Change(str, Enum):
    """UNCLEAR: the difference, if there is one, drowns in noise."""

    BETTER = "better"
    SAME = "same"
    WORSE = "worse"
    UNCLEAR = "unclear"


@dataclass(frozen=True)
class Difference:
    """One figure at one load: old and new (seconds, or tokens a second), and how sure it is."""

    load: Load
    figure: str
    old: float
    new: float
    ratio: Ratio
    change: Change


@dataclass(frozen=True)
class Comparison:
    """All differences. `tolerance` is the share up to which nothing is made of one."""

    names: tuple[str, ...]
    tolerance: float
    differences: tuple[Difference, ...]
    notes: tuple[str, ...] = ()

    @property
    def is_worse(self) -> bool:
        """True if a figure is worse for sure."""
        return any(found.change is Change.WORSE for found in self.differences)


# Name, values, statistic, and whether more is better.
_FIGURES: tuple[tuple[str, str, Statistic, bool], ...] = (
    ("ttft p50", "ttft", median, False),
    ("ttft p95", "ttft", p95, False),
    ("tpot p50", "tpot", median, False),
    ("latency p50", "latency", median, False),
    ("throughput", "throughput", mean, True),
)


def compare(
    levels: Sequence[Level], saved: Sequence[Saved], tolerance: float, notes: tuple[str, ...] = ()
) -> Comparison:
    """Compare loads that all runs have in common."""
    found: list[Difference] = []
    for level in levels:
        olds = [run.series[level.load] for run in saved if level.load in run.series]
        if olds:
            found += _differences(level, olds, tolerance)
    return Comparison(tuple(run.name for run in saved), tolerance, tuple(found), notes)


def _differences(level: Level, olds: Sequence[Series], tolerance: float) -> Iterator[Difference]:
    for name, field, statistic, more_is_better in _FIGURES:
        new = getattr(level.series, field)
        earlier = [values for values in (getattr(old, field) for old in olds) if values]
        block = 1 if field == "throughput" else level.load.users
        found = ratio(new, earlier, statistic, block)
        if found is not None:
            old = mean([statistic(values) for values in earlier])
            change = judged(found, tolerance, more_is_better)
            yield Difference(level.load, name, old, statistic(new), found, change)


def judged(found: Ratio, tolerance: float, more_is_better: bool) -> Change:
    """What a ratio means.

    A change is sure if its bounds leave out 1, and worth a word if it is larger than the
    tolerance; "the same" needs bounds within twice the tolerance.
    """
    if found.value > 1 + tolerance and found.low > 1:
        return Change.BETTER if more_is_better else Change.WORSE
    if found.value < 1 / (1 + tolerance) and found.high < 1:
        return Change.WORSE if more_is_better else Change.BETTER
    wide = 1 + 2 * tolerance
    return Change.SAME if 1 / wide < found.low and found.high < wide else Change.UNCLEAR
