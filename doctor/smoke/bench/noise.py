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
# Of a logarithm; no sane ratio of times comes near.
_MOST = 100.0
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
    variance = _variance(fresh, statistic, block)
    variance += sum(_variance(run, statistic, block) for run in earlier) / len(earlier) ** 2
    variance += _spread(logs) * (1 + 1 / len(logs))
    half = _sigmas(sum(len(run) // _length(run, block) - 1 for run in runs)) * math.sqrt(variance)
    return Ratio(_exp(value), _exp(value - half), _exp(value + half))


def _sigmas(freedom: int) -> float:
    """How many standard deviations leave out 1 %, by Student for few blocks (Cornish-Fisher)."""
    return _SIGMAS * (1 + (_SIGMAS**2 + 1) / (4 * max(freedom, 1)))


def _exp(logarithm: float) -> float:
    return math.exp(max(-_MOST, min(logarithm, _MOST)))


def thinned(values: Sequence[float]) -> Sequence[float]:
    """At most _MOST_VALUES of them, evenly."""
    step = -(-len(values) // _MOST_VALUES)
    return values[::step] if step > 1 else values


def _length(values: Sequence[float], block: int) -> int:
    """How many neighbours are drawn together; at least five such blocks are needed."""
    count = len(values)
    usual: int = round(count ** (1 / 3))
    return min(max(block, usual), max(1, count // 5))


def _variance(values: Sequence[float], statistic: Statistic, block: int) -> float:
    """Variance of the logarithm of the statistic, by drawing blocks again."""
    count = len(values)
    if count < 2:
        return 0.0
    length = _length(values, block)
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
    blocks = count // length
    return _spread(logs) * (blocks / max(blocks - 1, 1))


def _spread(values: Sequence[float]) -> float:
    """Variance, 0 for a single value."""
    if len(values) < 2:
        return 0.0
    middle = mean(values)
    return sum((value - middle) ** 2 for value in values) / (len(values) - 1)
