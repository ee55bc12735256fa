"""Where more load stops to bring more: the knee of a sweep. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from doctor.smoke.bench.figures import Level

# Of the best throughput: what the knee must reach; beyond it only waiting grows.
SHARE = 0.9


@dataclass(frozen=True)
class Knee:
    """`level` is the place in the sweep; `is_reached` is False if throughput still rose there."""

    level: int
    is_reached: bool


def find_knee(levels: Sequence[Level]) -> Knee | None:
    """The smallest load that brings 90 % of the best throughput; None for fewer than 2 loads."""
    rates = [level.output_rate for level in levels]
    if len(rates) < 2 or max(rates) <= 0:
        return None
    best = max(rates)
    place = next(n for n, rate in enumerate(rates) if rate >= SHARE * best)
    return Knee(place, place < len(rates) - 1)


def is_past(levels: Sequence[Level]) -> bool:
    """Tell whether the sweep may end: twice in a row, more load brought next to nothing."""
    if len(levels) < 3:
        return False
    best = max(level.output_rate for level in levels[:-2])
    return all(level.output_rate < best / SHARE for level in levels[-2:])
