"""How sure a difference between two runs is. Pure, and the same for the same values.

Requests that run side by side are slow together, so single values are not independent:
runs of neighbours are drawn again, not single ones (moving-block bootstrap, Künsch 1989).
What one run cannot show, how runs differ from each other, is taken from several earlier
runs where there are such.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from doctor.smoke.bench.figures import quantile

Statistic = Callable[[Sequence[float]], float]
_DRAWS, _MOST_VALUES = 200, 2000
# 99 %: many figures are compared at once.
_SIGMAS = 2.576


@dataclass(frozen=True)
class Ratio:
    """New by old, with the bounds between which it lies 99 times of 100."""

    value: float
    low: float
    high: float


def median(values: Sequence[float]) -> float:
    """The middle."""
    return quantile(sorted(values), 0.5)


def p95(values: Sequence[float]) -> float:
    """What 95 of 100 stay below."""
    return quantile(sorted(values), 0.95)


def mean(values: Sequence[float]) -> float:
    """The mean."""
    return sum(values) / len(values)


def ratio(
    new: Sequence[float], olds: Sequence[Sequence[float]], statistic: Statistic, block: int = 1
) -> Ratio | None:
    """The statistic of new values by that of old ones; None if either has none above 0.

    `block` is how many neighbours are likely to share their luck: requests at once.
    """
    runs = [thinned(run) for run in (new, *olds) if run]
    if len(runs) < 2 or not new or any(statistic(run) <= 0 for run in runs):
        return None
    fresh, *earlier = runs
    logs = [math.log(statistic(run)) for run in earlier]
    value = math.log(statistic(fresh)) - mean(logs)
    within = _variance(fresh, statistic, block)
    within += sum(_variance(run, statistic, block) for run in earlier) / len(earlier) ** 2
    between = _spread(logs) * (1 + 1 / len(logs))
    half = _SIGMAS * math.sqrt(within + between)
    return Ratio(math.exp(value), math.exp(value - half), math.exp(value + half))


def thinned(values: Sequence[float]) -> Sequence[float]:
    """At most _MOST_VALUES of them, evenly."""
    step = -(-len(values) // _MOST_VALUES)
    return values[::step] if step > 1 else values


def _variance(values: Sequence[float], statistic: Statistic, block: int) -> float:
    """Variance of the logarithm of the statistic, by drawing blocks again."""
    count = len(values)
    if count < 2:
        return 0.0
    length = min(max(block, round(count ** (1 / 3))), max(1, count // 5))
    chance = random.Random(count)  # noqa: S311 - to repeat, not to hide
    ring = [*values, *values[:length]]
    logs = []
    for _ in range(_DRAWS):
        drawn: list[float] = []
        for _ in range(-(-count // length)):
            begin = chance.randrange(count)
            drawn += ring[begin : begin + length]
        found = statistic(drawn[:count])
        logs.append(math.log(found) if found > 0 else 0.0)
    return _spread(logs)


def _spread(values: Sequence[float]) -> float:
    """Variance, 0 for a single value."""
    if len(values) < 2:
        return 0.0
    middle = mean(values)
    return sum((value - middle) ** 2 for value in values) / (len(values) - 1)
