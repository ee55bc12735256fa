"""Figures from samples whose answer is known beforehand: percentiles, rates, knee, targets."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from doctor.matrix import load_matrix
from doctor.matrix.serving import TargetRow
from doctor.smoke.bench.ask import Load
from doctor.smoke.bench.devices import use_of
from doctor.smoke.bench.drive import Course
from doctor.smoke.bench.figures import Level, level, quantile, spread, tokens_within
from doctor.smoke.bench.gauges import Gauge, metric_names, reading, summed
from doctor.smoke.bench.judge import State, judge
from doctor.smoke.bench.knee import find_knee, is_past
from doctor.smoke.bench.lengths import Lengths
from doctor.smoke.bench.own_load import OwnLoad
from doctor.smoke.bench.remarks import remarks
from doctor.smoke.bench.sample import Sample
from doctor.smoke.bench.terms import Terms
from doctor.smoke.metrics import parse_metrics

TIMES = st.lists(st.floats(0, 1e6), min_size=1, max_size=50)


def sample(due: float, ttft: float = 0.1, tpot: float = 0.01, tokens: int = 11) -> Sample:
    last = due + ttft + tpot * (tokens - 1)
    return Sample(due, due, last, due + ttft, last, tpot, prompt_tokens=7, tokens=tokens)


def levels(*rates: float) -> list[Level]:
    return [
        Level(Load(users=2**n), 1, 1, 0, 1.0, (0.0, 1.0), 1, 1, rate, 1.0, 1.0)
        for n, rate in enumerate(rates)
    ]


@given(TIMES, st.floats(0, 1))
def test_quantiles_are_those_of_numpy(values: list[float], share: float) -> None:
    ours = quantile(sorted(values), share)
    assert math.isclose(ours, float(numpy.quantile(values, share)), rel_tol=1e-9, abs_tol=1e-6)


def test_a_spread() -> None:
    found = spread([float(n) for n in range(101)])
    assert found is not None
    assert (found.count, found.p50, found.p90, found.p95, found.p99, found.high) == (
        101, 50, 90, 95, 99, 100,
    )  # fmt: skip
    assert spread([]) is None


@given(
    st.floats(0.001, 5), st.floats(0.001, 1), st.integers(1, 500),
    st.lists(st.floats(0, 600), min_size=1, max_size=5),
)  # fmt: skip
def test_parts_of_time_share_out_all_tokens(
    ttft: float, tpot: float, tokens: int, cuts: list[float]
) -> None:
    one = sample(0.0, ttft, tpot, tokens)
    edges = [-1.0, *sorted(cuts), max(one.last, *cuts) + 1]
    parts = [tokens_within(one, a, b) for a, b in pairwise(edges)]
    assert sum(parts) == pytest.approx(tokens)
    assert all(part >= 0 for part in parts)


def test_one_user_in_a_steady_row() -> None:
    """Ten requests of 0.2 s one after the other: every figure is known."""
    course = Course(Load(users=1), 10, [sample(0.2 * n) for n in range(10)], 0.0, 1.9, 2.0)
    found = level(course)
    assert (found.requests, found.succeeded, found.error_rate) == (10, 10, 0.0)
    assert (found.prompt_tokens, found.output_tokens) == (70, 110)
    assert found.ttft
    assert found.ttft.p50 == pytest.approx(0.1)
    assert found.tpot
    assert found.tpot.p99 == pytest.approx(0.01)
    assert found.latency
    assert found.latency.mean == pytest.approx(0.2)
    assert found.output_rate == pytest.approx(55, rel=0.06)
    assert sum(found.series.throughput) / 10 == pytest.approx(found.output_rate)


def test_only_requests_of_the_steady_time_count_for_percentiles() -> None:
    """What is sent while users still come is faster, and what is counted is all of it."""
    early = [sample(0.1 * n, ttft=0.01) for n in range(5)]
    steady = [sample(0.5 + 0.1 * n, ttft=0.5) for n in range(40)]
    found = level(Course(Load(users=4), 45, [*early, *steady], ramp=0.5, dry=4.5, ended=5.1))
    assert found.ttft is not None
    assert found.ttft.count == 40
    assert found.ttft.p50 == pytest.approx(0.5)
    assert found.output_tokens == 45 * 11
    assert found.window == (0.5, 4.5)


def test_a_failure_is_counted_by_kind_and_by_nothing_else() -> None:
    bad = Sample(0.0, 0.0, 0.1, fault="http-500", words="no slot")
    found = level(Course(Load(users=1), 4, [bad, bad, sample(0.2), bad], ended=1.0, dry=1.0))
    assert found.errors == {"http-500": 3}
    assert found.first_error == "no slot"
    assert found.error_rate == pytest.approx(0.75)
    assert found.output_tokens == 11


def test_a_course_without_anything_has_no_figures() -> None:
    found = level(Course(Load(users=1), 4, [], ended=1.0, dry=1.0))
    assert (found.requests, found.ttft, found.output_rate) == (0, None, 0.0)


# -- knee --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rates", "place", "reached"),
    [
        ((100, 200, 400, 410, 405), 2, True),
        ((100, 200, 400, 800), 3, False),
        ((100, 99, 101), 0, True),
        ((100, 180, 300, 320, 250), 2, True),
    ],
)
def test_the_knee(rates: tuple[float, ...], place: int, reached: bool) -> None:
    knee = find_knee(levels(*rates))
    assert knee is not None
    assert (knee.level, knee.is_reached) == (place, reached)


def test_no_knee_without_a_sweep() -> None:
    assert find_knee(levels(100)) is None
    assert find_knee(levels(0, 0)) is None


@pytest.mark.parametrize(
    ("rates", "ends"),
    [
        ((100, 200), False),
        ((100, 200, 210), False),
        ((100, 200, 210, 215), True),
        ((100, 200, 210, 300), False),
    ],
)
def test_a_sweep_ends_when_nothing_more_is_gained_twice(
    rates: tuple[float, ...], ends: bool
) -> None:
    assert is_past(levels(*rates)) is ends


# -- targets -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def targets() -> tuple[TargetRow, ...]:
    return load_matrix().serving.targets


def test_targets_are_met_missed_or_not_seen(targets: tuple[TargetRow, ...]) -> None:
    use = use_of(["0, 80, 900, 1000", "0, 70, 880, 1000", "1, 0, 10, 1000"])
    slow = [sample(float(n), ttft=3.0) for n in range(99)]
    bad = [Sample(0.0, 0.0, 0.1, fault="timed-out")]
    found = judge(level(Course(Load(users=1), 9, slow + bad, ended=99, dry=99), None, use), targets)
    states = {judgement.key: judgement.state for judgement in found}
    assert states == {
        "error_rate": State.MET,
        "ttft_p99": State.MISSED,
        "tpot_p99": State.MET,
        "device_utilization": State.MET,
        "device_memory": State.MET,
    }
    assert not any(judgement.fails for judgement in found)


def test_what_is_not_seen_is_not_met(targets: tuple[TargetRow, ...]) -> None:
    found = judge(level(Course(Load(users=1), 9, [sample(0.0)], ended=1, dry=1)), targets)
    unknown = {judgement.key for judgement in found if judgement.state is State.UNKNOWN}
    assert unknown == {"device_utilization", "device_memory"}


def test_a_limit_that_was_named_is_more_than_a_warning(targets: tuple[TargetRow, ...]) -> None:
    one = level(Course(Load(users=1), 9, [sample(0.0)], ended=1, dry=1))
    found = {j.key: j for j in judge(one, targets, ttft_limit_s=0.05)}
    assert found["ttft_p99"].fails
    assert not {j.key: j for j in judge(one, targets, ttft_limit_s=0.5)}["ttft_p99"].fails


def test_too_many_failures_fail(targets: tuple[TargetRow, ...]) -> None:
    bad = [Sample(0.0, 0.0, 0.1, fault="timed-out")] * 2
    one = level(Course(Load(users=1), 99, [*[sample(0.0)] * 98, *bad], ended=1, dry=1))
    assert {j.key for j in judge(one, targets) if j.fails} == {"error_rate"}


# -- what engines and devices say ----------------------------------------------------------------


def test_metrics_of_three_engines() -> None:
    names = metric_names(load_matrix().launches)
    for engine in ("vllm", "sglang", "llamacpp"):
        assert any(name.startswith(f"{engine}:") for name in names["waiting"])
    before = parse_metrics(
        'vllm:num_requests_waiting{m="x"} 0\nvllm:generation_tokens_total 100\n'
        "vllm:kv_cache_usage_perc 0.2\nvllm:time_to_first_token_seconds_sum 10\n"
        "vllm:time_to_first_token_seconds_count 10\n"
    )
    after = parse_metrics(
        'vllm:num_requests_waiting{m="x"} 6\nvllm:generation_tokens_total 150\n'
        "vllm:kv_cache_usage_perc 0.8\nvllm:time_to_first_token_seconds_sum 12\n"
        "vllm:time_to_first_token_seconds_count 14\n"
    )
    found = summed([before, after], names)
    assert found is not None
    assert found.gauges == {"waiting": Gauge(3, 6), "kv_usage": Gauge(0.5, 0.8)}
    assert found.counted == {"generated_tokens": 50}
    assert found.means == {"ttft": 0.5}
    assert summed([], names) is None


def test_shares_of_several_replicas_are_not_added_up() -> None:
    names = metric_names(load_matrix().launches)
    found = reading(
        'vllm:kv_cache_usage_perc{engine="0"} 0.5\nvllm:kv_cache_usage_perc{engine="1"} 0.7\n'
        'vllm:num_requests_running{engine="0"} 3\nvllm:num_requests_running{engine="1"} 4\n'
        "other 5\n",
        names,
    )
    assert found == {
        "vllm:kv_cache_usage_perc": pytest.approx(0.6),
        "vllm:num_requests_running": 7,
    }


@given(st.lists(st.text(max_size=40), max_size=8))
def test_any_words_of_the_tool_are_use_or_nothing(lines: list[str]) -> None:
    found = use_of(lines)
    assert found is None or found.devices > 0


def test_devices_that_never_worked_do_not_count() -> None:
    found = use_of(["0, 100, 50, 100", "0, 50, 60, 100", "1, 0, 99, 100", "[N/A], x, y, z"])
    assert found is not None
    assert (found.devices, found.utilization, found.memory) == (1, 0.75, 0.6)


# -- what a reader must know ---------------------------------------------------------------------


def test_remarks_name_what_spoils_figures() -> None:
    names = metric_names(load_matrix().launches)
    rows = (
        "llamacpp:prompt_tokens_total {}\nllamacpp:prompt_tokens_cached_total {}\n"
        "llamacpp:tokens_predicted_total {}\nvllm:num_preemptions_total {}\n"
    )
    readings = [parse_metrics(rows.format(*[n] * 4)) for n in (0, 500)]
    course = Course(Load(users=2), 9, [sample(0.0)], ended=1, dry=1, unfinished=3)
    clean = Course(Load(users=2), 9, [sample(0.0)], ended=1, dry=1)
    found = [
        level(course, None, None, OwnLoad(lag_s=0.2, cpu=0.97)),
        level(clean, summed(readings, names), None, OwnLoad(0.0, 0.1)),
    ]
    slow = replace(found[1], late=2.0)
    found = [found[0], replace(slow, own=OwnLoad(0.0, 0.1))]
    asked = Lengths("x", ((100, 10), (10, 10)))
    terms = Terms("m", forced=False, context=50)
    text = "\n".join(remarks(asked, terms, found))
    for words in (
        "no more than about 50 tokens: 50% of",
        "does not force their length",
        "itself was late by up to 200 ms",
        "left up to 2 s after they were due",
        "3 requests were still under way",
        "50% of the prompts' tokens came from a cache",
        "put 500 requests off",
        "489 tokens to somebody else",
        "1 requests are few",
    ):
        assert words in text


def test_a_good_run_has_no_remarks() -> None:
    course = Course(Load(users=1), 40, [sample(0.2 * n) for n in range(40)], dry=8, ended=8)
    found = level(course, None, None, OwnLoad(0.001, 0.2))
    assert remarks(Lengths("x", ((8, 8),)), Terms("m"), [found]) == ()
