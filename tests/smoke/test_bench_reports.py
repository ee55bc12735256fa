"""Reports of a load test: every format, hostile text, and JSON that a later run can read."""

from __future__ import annotations

import json
import random
import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from html.parser import HTMLParser
from io import StringIO
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from doctor.errors import ExitCode, UsageError
from doctor.matrix import load_matrix
from doctor.report import Style
from doctor.report.bench import FORMATS, renderer
from doctor.report.bench_progress import BenchProgress
from doctor.report.bench_words import rate_text, share_text, time_text
from doctor.report.plot import Chart, Line, draw, nice_step
from doctor.smoke.bench.ask import BenchAsk, Load
from doctor.smoke.bench.baseline import Saved, read_baseline
from doctor.smoke.bench.comparison import Change
from doctor.smoke.bench.drive import Course
from doctor.smoke.bench.figures import Level, level
from doctor.smoke.bench.gauges import Gauge, Gauges
from doctor.smoke.bench.judge import judge
from doctor.smoke.bench.knee import find_knee
from doctor.smoke.bench.lengths import Lengths
from doctor.smoke.bench.outcome import EXIT_CODES, BenchOutcome, BenchVerdict
from doctor.smoke.bench.run import Progress, against, expect_comparable
from doctor.smoke.bench.sample import Sample

HOSTILE = "m\x1b[31m<script>alert(1)</script>|`*[x](javascript:1)\u202e"
LENGTHS = Lengths("chat", ((300, 20), (100, 10)), "somewhere")


def course(users: int, factor: float = 1.0, count: int = 120, failing: int = 0) -> Course:
    chance = random.Random(users)  # noqa: S311 - to repeat, not to hide
    samples, now = [], 0.0
    for n in range(count):
        ttft = factor * 0.05 * users * chance.uniform(0.95, 1.05)
        tpot = factor * 0.01 * chance.uniform(0.95, 1.05)
        last = now + ttft + 10 * tpot
        samples.append(Sample(now, now, last, now + ttft, last, tpot, 7, 11))
        if n < failing:
            samples.append(Sample(now, now, now + 0.1, fault="http-500", words=HOSTILE))
        now += (last - now) / users
    return Course(Load(users=users), count, samples, 0.0, now, now + 1)


def outcome(factor: float = 1.0, failing: int = 0, **more: object) -> BenchOutcome:
    gauges = Gauges({"kv_usage": Gauge(0.2, 0.5), "waiting": Gauge(1, 3)}, {}, {})
    levels = tuple(level(course(n, factor, failing=failing), gauges) for n in (1, 2, 4, 8))
    knee = find_knee(levels)
    judged = knee.level if knee else 0
    found = BenchOutcome(
        "http://127.0.0.1:1", "smol", LENGTHS, False, True, None, 1, levels, knee, judged,
        judge(levels[judged], load_matrix().serving.targets), notes=("a note",),
        began="2026-11-29T00:00:00+00:00", seconds=12.5,
    )  # fmt: skip
    return replace(found, **more)  # type: ignore[arg-type]


def saved(tmp_path: Path, found: BenchOutcome, name: str = "before.json") -> Saved:
    path = tmp_path / name
    path.write_text(renderer("json")(found, Style()))
    return read_baseline(path)


# -- what people read ----------------------------------------------------------------------------


def test_a_table_with_what_it_means() -> None:
    text = renderer("text")(outcome(), Style(width=120))
    assert "bench smol at http://127.0.0.1:1" in text
    assert re.search(r"^2 at once +120 +0 .* 50 % +3", text, re.MULTILINE)
    assert "no knee: throughput still rose at 8 at once" in text
    assert "ok   requests that failed: 0 % (at most 1.0 %)" in text
    assert "-    share of time in which the accelerator computed: not seen from here" in text
    assert "note: a note" in text
    assert text.rstrip().endswith("measured, 12.5 s")
    assert all(len(line) <= 120 for line in text.splitlines())


def test_a_missed_target_names_its_remedy() -> None:
    text = renderer("text")(outcome(factor=60, failing=4), Style(colour=True))
    assert "\x1b[31mFAIL \x1b[0mrequests that failed" in text
    assert "\x1b[33mwarn \x1b[0mwait for the first token" in text
    assert "chunked prefill" in text
    assert "4 http-500; the first: m\\x1b[31m" in text
    assert "a target is missed" in text


@pytest.mark.parametrize("form", FORMATS)
def test_no_text_from_outside_has_power(form: str) -> None:
    hostile = replace(
        outcome(failing=2), model=HOSTILE, url=HOSTILE, notes=(HOSTILE,),
        lengths=Lengths(HOSTILE, ((1, 1),), HOSTILE),
    )  # fmt: skip
    text = renderer(form)(hostile, Style())
    if form != "json":
        assert "\x1b" not in text
        assert "\u202e" not in text
    if form == "html":
        assert "<script>alert" not in text
    if form == "markdown":
        # In a code span nothing is markup; anywhere else it is escaped.
        assert "<script" not in re.sub(r"(`+)[^`].*?\1", "", text).replace("\\<", "")


@pytest.mark.parametrize("form", FORMATS)
def test_nothing_measured_is_a_report_too(form: str) -> None:
    empty = replace(outcome(), levels=(), knee=None, judged=None, judgements=(), interrupted=True)
    text = renderer(form)(empty, Style())
    assert "interrupted" in text.lower()


class _Page(HTMLParser):
    """Collects what a page would fetch, and checks that its tags nest."""

    def __init__(self) -> None:
        super().__init__()
        self.fetched: list[str] = []
        self.seen: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)
        for name, value in attrs:
            if name in ("src", "href") and value and not value.startswith(("#", "data:")):
                self.fetched.append(value)
            assert name != "style"
            assert not name.startswith("on")


def test_the_page_loads_nothing_and_has_its_charts() -> None:
    text = renderer("html")(outcome(), Style())
    page = _Page()
    page.feed(text)
    assert page.fetched == []
    assert page.seen.count("figure") == 6
    assert "prefers-color-scheme: dark" in text
    for drawing in re.findall(r"<figure.*?</figure>", text):
        ET.fromstring(drawing)  # noqa: S314 - our own


def test_markdown_is_one_table_with_a_rule() -> None:
    text = renderer("markdown")(outcome(), Style())
    rows = [line for line in text.splitlines() if line.startswith("|")]
    loads = rows[:6]
    assert len({line.count("|") for line in loads}) == 1
    assert set(loads[1]) == {"|", "-"}


@given(st.floats(0, 1e9), st.floats(0, 1e9), st.floats(0, 1))
def test_numbers_are_short(seconds: float, rate: float, share: float) -> None:
    for text in (time_text(seconds), rate_text(rate), share_text(share)):
        assert len(text) <= 16
        assert "e" not in text.replace("s", "") or rate < 1e-3


@given(st.floats(1e-9, 1e12))
def test_steps_are_round(span: float) -> None:
    step = nice_step(span)
    assert 1.9 < span / step < 5.01
    assert f"{step:e}"[0] in "125"


@given(
    st.lists(st.tuples(st.floats(0, 1e9), st.floats(0, 1e9)), max_size=6),
    st.lists(st.floats(0, 1e9), max_size=4),
)
def test_any_points_are_a_drawing(points: list[tuple[float, float]], ticks: list[float]) -> None:
    lines = (Line("a<b", tuple(points)), Line("c", ()))
    chart = Chart("t & u", "x", tuple((x, "<>") for x in ticks), lines, rate_text, (1.0, "k"))
    text = draw(chart)
    if points and ticks:
        ET.fromstring(text)  # noqa: S314 - our own
    else:
        assert text == ""


# -- progress --------------------------------------------------------------------------------------


class _Terminal(StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("stream", [StringIO(), _Terminal()])
def test_progress_on_terminals_and_elsewhere(stream: StringIO) -> None:
    show = BenchProgress(stream)
    show(Progress(None, total_s=180))
    for done in range(1, 100):
        found = course(2, count=done)
        found.wanted = 100
        show(Progress(Load(users=2), 1, 3, found, 4.0, 180.0))
    show.close()
    text = stream.getvalue()
    assert "warming up, at most 180 s in all" in text
    assert "2 at once (1 of 3): 1 of 100 requests" in text
    if stream.isatty():
        assert text.endswith("\r\x1b[K")
        assert all(len(part) < 90 for part in text.split("\r"))
    else:
        assert text.count("\n") == 2
        assert "\x1b" not in text


# -- JSON and comparison -------------------------------------------------------------------------


def test_json_can_be_read_again(tmp_path: Path) -> None:
    found = outcome(failing=2)
    again = saved(tmp_path, found)
    assert again.lengths == "chat"
    assert set(again.series) == {row.load for row in found.levels}
    first = found.levels[0].series
    assert again.series[Load(users=1)].ttft == pytest.approx(first.ttft, abs=1e-6)
    data = json.loads((tmp_path / "before.json").read_text())
    assert data["verdict"] == "missed"
    assert data["loads"][0]["output_tokens"] == 120 * 11
    assert data["loads"][0]["errors"] == {"http-500": 2}
    assert data["targets"][0]["state"] == "missed"


@pytest.mark.parametrize(
    ("factor", "verdict", "code"),
    [
        (1.0, BenchVerdict.MEASURED, ExitCode.OK),
        (1.4, BenchVerdict.REGRESSED, ExitCode.NO),
        (0.7, BenchVerdict.MEASURED, ExitCode.OK),
    ],
)
def test_a_run_against_its_baseline(
    factor: float, verdict: BenchVerdict, code: ExitCode, tmp_path: Path
) -> None:
    before = saved(tmp_path, outcome())
    found = against(outcome(factor), [before], 0.1)
    assert found.verdict is verdict
    assert EXIT_CODES[found.verdict] is code
    assert found.comparison
    assert len(found.comparison.differences) == 4 * 5
    wanted = {1.0: Change.SAME, 1.4: Change.WORSE, 0.7: Change.BETTER}[factor]
    changes = [row.change for row in found.comparison.differences]
    assert set(changes) <= {wanted, Change.UNCLEAR}
    assert changes.count(wanted) >= 18
    for form in FORMATS:
        text = renderer(form)(found, Style())
        assert "before.json" in text.replace("\\", "")


def test_runs_that_asked_for_other_things_are_not_compared(tmp_path: Path) -> None:
    before = saved(tmp_path, outcome())
    ask = BenchAsk("http://h", LENGTHS, (Load(users=1),))
    expect_comparable(ask, [before])
    with pytest.raises(UsageError, match="other lengths"):
        expect_comparable(replace(ask, lengths=Lengths("x", ((1, 1),))), [before])
    with pytest.raises(UsageError, match="no load in common, only 1 at once, 2"):
        expect_comparable(replace(ask, loads=(Load(rate=3.0),)), [before])


def test_another_model_is_named_and_compared(tmp_path: Path) -> None:
    before = saved(tmp_path, replace(outcome(), model="other", context=512))
    found = against(outcome(), [before], 0.1).comparison
    assert found
    assert len(found.notes) == 2


@pytest.mark.parametrize("text", ["", "[]", "{", '{"schema": "doctor/bench/v1"}', "[" * 100_000])
def test_a_file_that_is_no_result_is_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text(text)
    with pytest.raises(UsageError, match="holds no"):
        read_baseline(path)
    with pytest.raises(UsageError, match="cannot read"):
        read_baseline(tmp_path)


JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(["users", "rate", "series", "ttft", "x"]), inner)
    ),
    max_leaves=12,
)


@given(loads=JSON, lengths=JSON)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_result_is_read_or_refused(loads: object, lengths: object, tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    data = {"schema": "doctor/bench/v1", "loads": loads, "lengths": lengths}
    path.write_text(json.dumps(data))
    try:
        found = read_baseline(path)
    except UsageError:
        return
    assert all(load.value > 0 for load in found.series)


def test_levels_of_nothing_have_no_curves() -> None:
    """Loads at which nothing succeeded leave gaps, not faults."""
    dead = level(Course(Load(users=16), 3, [Sample(0, 0, 1, fault="timed-out")], ended=1, dry=1))
    levels: tuple[Level, ...] = (*outcome().levels, dead)
    for form in FORMATS:
        assert renderer(form)(replace(outcome(), levels=levels), Style())
