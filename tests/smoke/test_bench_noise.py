"""Whether a difference is one: how often noise is taken for news, and news for noise."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from doctor.smoke.bench.comparison import Change, judged
from doctor.smoke.bench.noise import Ratio, median, ratio, thinned

TOLERANCE = 0.1


def run(seed: int, factor: float = 1.0, count: int = 320, luck: int = 8) -> list[float]:
    """Times with a long tail; `luck` neighbours share their luck, as requests at once do."""
    chance = random.Random(seed)  # noqa: S311 - to repeat, not to hide
    values: list[float] = []
    while len(values) < count:
        shared = chance.lognormvariate(0, 0.1)
        values += [factor * shared * chance.lognormvariate(-2, 0.3) for _ in range(luck)]
    return values[:count]


def verdict(new: list[float], *olds: list[float]) -> Change:
    found = ratio(new, olds, median, block=8)
    assert found is not None
    return judged(found, TOLERANCE, more_is_better=False)


def test_noise_is_no_regression() -> None:
    verdicts = [verdict(run(n), run(1000 + n)) for n in range(24)]
    assert sum(v in (Change.WORSE, Change.BETTER) for v in verdicts) <= 1
    assert verdicts.count(Change.SAME) >= 6


@pytest.mark.parametrize(("factor", "change"), [(1.3, Change.WORSE), (0.75, Change.BETTER)])
def test_a_real_change_is_seen(factor: float, change: Change) -> None:
    verdicts = [verdict(run(n, factor), run(1000 + n)) for n in range(24)]
    assert verdicts.count(change) >= 22


def test_a_change_below_the_tolerance_is_none() -> None:
    verdicts = [verdict(run(n, 1.02), run(1000 + n)) for n in range(24)]
    assert Change.BETTER not in verdicts
    assert verdicts.count(Change.WORSE) <= 1


def test_few_requests_are_too_noisy_to_say() -> None:
    verdicts = [verdict(run(n, 1.15, 16), run(1000 + n, 1.0, 16)) for n in range(20)]
    assert verdicts.count(Change.UNCLEAR) >= 15


def test_earlier_runs_that_differ_widen_the_bounds() -> None:
    """One run cannot show how runs differ from each other; several can."""
    new, olds = run(1, 1.4), [run(2, 1.0), run(3, 1.5), run(4, 0.9)]
    assert verdict(new, olds[0]) is Change.WORSE
    assert verdict(new, *olds) is Change.UNCLEAR


def test_more_is_better_for_throughput() -> None:
    assert judged(Ratio(1.5, 1.3, 1.7), TOLERANCE, more_is_better=True) is Change.BETTER
    assert judged(Ratio(0.5, 0.3, 0.7), TOLERANCE, more_is_better=True) is Change.WORSE


@given(st.lists(st.floats(0, 1e6), max_size=60), st.lists(st.floats(0, 1e6), max_size=60))
def test_any_two_runs_have_a_ratio_or_none(new: list[float], old: list[float]) -> None:
    found = ratio(new, [old], median)
    assert found is None or found.low <= found.value <= found.high


def test_long_runs_are_thinned_evenly() -> None:
    assert list(thinned(range(10))) == list(range(10))
    kept = thinned(range(100_000))
    assert len(kept) <= 2000
    assert (kept[0], kept[-1]) == (0, 99_950)


def test_the_same_runs_give_the_same_bounds() -> None:
    first, second = (ratio(run(1), [run(2)], median, 4) for _ in range(2))
    assert first == second
