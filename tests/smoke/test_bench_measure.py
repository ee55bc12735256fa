"""The measuring itself, against a server whose times are known."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from collections.abc import AsyncGenerator, Iterable, Sequence
from statistics import median

import pytest

from doctor.errors import DoctorError
from doctor.matrix import Matrix, load_matrix
from doctor.smoke.bench.ask import BenchAsk, Limits, Load
from doctor.smoke.bench.asked import Options, find_lengths, read_ask
from doctor.smoke.bench.outcome import BenchOutcome, BenchVerdict
from doctor.smoke.bench.run import Progress, bench
from doctor.smoke.bench.sample import Sample, take
from doctor.smoke.calls import CallFault, Piece, Request, Trouble, Usage
from doctor.smoke.client import Client
from doctor.smoke.secret import Secret
from tests.smoke.timed import Profile, Timed

pytestmark = pytest.mark.real


@pytest.fixture(scope="module")
def matrix() -> Matrix:
    return load_matrix()


def ask(
    server: Timed, matrix: Matrix, *loads: Load, lengths: str = "30x6", requests: int = 12,
    seconds: float = 20.0, total_s: float = 60.0, **more: object,
) -> BenchAsk:  # fmt: skip
    limits = Limits(requests=requests, seconds=seconds, total_s=total_s, request_s=10.0)
    found = find_lengths(lengths, matrix)
    options = {"warm_up": 1, **more}
    return BenchAsk(server.url, found, loads or (Load(users=1),), limits=limits, **options)  # type: ignore[arg-type]


def expect_near(ours: Sequence[float], real: Iterable[float]) -> None:
    """Within 10 % or 3 ms for a quarter at least, when nobody else had the CPU."""
    off = sorted(abs(own - true) for own, true in zip(ours, real, strict=True))
    assert off[len(off) // 4] < max(0.003, 0.1 * median(ours))


def expect_not_shorter(ours: Sequence[float], real: Iterable[float]) -> None:
    """What ends with a token cannot end before it was sent, however busy the machine is."""
    assert min(own - true for own, true in zip(ours, real, strict=True)) > -0.002


# -- one request ---------------------------------------------------------------------------------


class _Scripted(Client):
    """A client whose stream brings pieces at stated moments, without waiting for them."""

    def __init__(self, script: list[tuple[float, Piece]], fault: CallFault | None = None) -> None:
        super().__init__("http://nowhere")
        self._script, self._fault = script, fault

    async def stream(
        self,
        request: Request,  # noqa: ARG002
        timeout_s: float | None = None,  # noqa: ARG002
    ) -> AsyncGenerator[tuple[float, Piece], None]:
        began = time.monotonic()
        for at, piece in self._script:
            yield began + at, piece
        if self._fault is not None:
            raise self._fault


def taken(
    script: list[tuple[float, Piece]], fault: CallFault | None = None, due: float = 0.0
) -> Sample:
    began = time.monotonic()
    return asyncio.run(take(_Scripted(script, fault), Request("m"), began, due, 1.0))


def test_times_of_one_answer() -> None:
    """A first piece without text is no token; the end mark is one."""
    found = taken([
        (0.1, Piece()), (0.5, Piece("a")), (0.6, Piece("b c")), (1.0, Piece("d")),
        (1.1, Piece(finish="stop")), (9.0, Piece(usage=Usage(30, 5))),
        (9.0, Piece(timings={"prompt_ms": 480.0, "predicted_ms": 600.0, "predicted_n": 5.0})),
    ])  # fmt: skip
    assert found.ttft == pytest.approx(0.5, abs=0.01)
    assert found.tpot == pytest.approx(0.15, abs=0.001)
    assert found.gap == pytest.approx(0.4, abs=0.001)
    assert (found.prompt_tokens, found.tokens) == (30, 5)
    assert (found.server_ttft, found.server_tpot) == (0.48, 0.15)
    assert found.fault == ""


def test_waiting_for_a_turn_is_waiting() -> None:
    """An open loop that comes late measures from when the request was due."""
    found = taken([(0.5, Piece("a")), (0.6, Piece(usage=Usage(3, 1)))], due=-2.0)
    assert found.ttft == pytest.approx(2.5, abs=0.05)
    assert found.tpot is None


@pytest.mark.parametrize(
    ("script", "fault", "name"),
    [
        ([(0.1, Piece("a"))], None, "no-usage"),
        ([(0.1, Piece(usage=Usage(3, 4)))], None, "no-text"),
        ([(0.1, Piece("a", usage=Usage(3, 10**400)))], None, "wrong-usage"),
        ([(0.1, Piece("a", usage=Usage(3, -1)))], None, "wrong-usage"),
        ([(0.1, Piece("a", usage=Usage(-3, 1)))], None, "wrong-usage"),
        ([], CallFault(Trouble.HTTP_ERROR, "busy", 503), "http-503"),
        ([(0.1, Piece("a"))], CallFault(Trouble.TRUNCATED, "cut"), "truncated-stream"),
        ([], CallFault(Trouble.HTTP_ERROR, "in the stream", 0), "http-error"),
    ],
)
def test_failures_of_one_request(
    script: list[tuple[float, Piece]], fault: CallFault | None, name: str
) -> None:
    assert taken(script, fault).fault == name


# -- a whole load --------------------------------------------------------------------------------


def test_known_times_are_measured(matrix: Matrix) -> None:
    with Timed(Profile(ttft=0.03, tpot=0.01)) as server:
        outcome = bench(ask(server, matrix), matrix)
    (level,) = outcome.levels
    served = server.state.served[-12:]
    for ours, real in (
        (level.series.ttft, [s.first - s.arrived for s in served]),
        (level.series.latency, [s.last - s.arrived for s in served]),
    ):
        expect_near(ours, real)
        expect_not_shorter(ours, real)
    expect_near(level.series.tpot, ((s.last - s.first) / (s.tokens - 1) for s in served))
    assert outcome.verdict is BenchVerdict.MEASURED


def test_tokens_are_counted_from_usage_and_not_from_pieces(matrix: Matrix) -> None:
    with Timed(Profile(group=3, tpot=0.004)) as server:
        outcome = bench(ask(server, matrix, Load(users=3), requests=15, lengths="30x9"), matrix)
    (level,) = outcome.levels
    assert level.output_tokens == 15 * 9 == sum(s.tokens for s in server.state.served[-15:])
    assert level.prompt_tokens == sum(s.prompt for s in server.state.served[-15:])
    assert level.gauges
    assert level.gauges.counted["generated_tokens"] == level.output_tokens
    assert level.gauges.counted["prompt_tokens"] == level.prompt_tokens
    assert not [note for note in outcome.notes if "somebody else" in note]


def test_prompts_have_the_lengths_asked_for(matrix: Matrix) -> None:
    with Timed() as server:
        bench(ask(server, matrix, lengths="123x4", requests=3), matrix)
    assert [served.prompt for served in server.state.served[-3:]] == [123] * 3


def test_no_more_users_than_asked_for(matrix: Matrix) -> None:
    with Timed(Profile(ttft=0.02)) as server:
        outcome = bench(ask(server, matrix, Load(users=5), requests=30), matrix)
    assert server.state.most == 5
    assert outcome.levels[0].succeeded == 30


@pytest.mark.slow
def test_a_sweep_finds_the_knee_of_a_server_with_four_slots(matrix: Matrix) -> None:
    loads = tuple(Load(users=n) for n in (1, 2, 4, 8, 16))
    # Slow enough that a busy machine keeps up with it.
    with Timed(Profile(ttft=0.25, tpot=0.02, slots=4)) as server:
        outcome = bench(ask(server, matrix, *loads, requests=24, lengths="8x3"), matrix)
    knee = outcome.knee
    assert knee
    assert knee.is_reached
    assert outcome.levels[knee.level].load.users in (4, 8)
    assert outcome.judged == knee.level


def test_a_sweep_ends_early(matrix: Matrix) -> None:
    loads = tuple(Load(users=2**n) for n in range(8))
    with Timed(Profile(ttft=0.01, tpot=0.001, slots=1)) as server:
        wanted = ask(server, matrix, *loads, requests=30, lengths="8x2", stops_early=True)
        outcome = bench(wanted, matrix)
    assert len(outcome.levels) < len(loads)
    assert any("twice the load brought no more" in note for note in outcome.notes)


def test_the_queue_of_a_server_is_seen(matrix: Matrix) -> None:
    with Timed(Profile(ttft=0.03, slots=1)) as server:
        outcome = bench(ask(server, matrix, Load(users=6), requests=36), matrix)
    gauges = outcome.levels[0].gauges
    assert gauges
    assert gauges.gauges["waiting"].high >= 3
    assert gauges.gauges["running"].high == 1
    assert gauges.gauges["kv_usage"].high == 1.0


def test_arrivals_of_an_open_loop(matrix: Matrix) -> None:
    """As many as the rate says, at times that the seed repeats, not held up by answers."""
    runs: list[list[float]] = []

    def note(progress: Progress) -> None:
        if progress.course and len(progress.course.samples) == 40:
            runs.append(sorted(sample.due for sample in progress.course.samples))

    for seed in (1, 1, 2):
        with Timed(Profile(ttft=0.08, tpot=0.001)) as server:
            wanted = ask(server, matrix, Load(rate=160), requests=40, seconds=5, seed=seed)
            outcome = bench(wanted, matrix, note)
        assert outcome.levels[0].succeeded == 40
        assert server.state.most > 5
    first, second, other = runs
    assert first == second != other
    assert 0.12 < first[-1] < 0.45


def test_an_open_loop_ends_in_time(matrix: Matrix) -> None:
    with Timed() as server:
        outcome = bench(ask(server, matrix, Load(rate=0.01), requests=50, seconds=0.3), matrix)
    assert outcome.levels[0].requests == 1
    assert outcome.seconds < 3


# -- limits ----------------------------------------------------------------------------------------


def test_a_load_ends_after_its_seconds(matrix: Matrix) -> None:
    with Timed() as server:
        outcome = bench(ask(server, matrix, requests=10_000, seconds=0.5), matrix)
    assert 0 < outcome.levels[0].requests < 60
    assert outcome.seconds < 3


def test_everything_ends_after_the_last_moment(matrix: Matrix) -> None:
    """Requests under way are given up, and are no failures."""
    with Timed(Profile(ttft=0.01, tpot=0.3)) as server:
        loads = Load(users=3), Load(users=4)
        outcome = bench(ask(server, matrix, *loads, total_s=1.2, warm_up=0), matrix)
    (level,) = outcome.levels or (None,)
    assert level is None or (level.unfinished, level.errors) == (3, {})
    assert outcome.seconds < 2.5
    assert any("time was up after 1.2 s" in note for note in outcome.notes)
    assert outcome.verdict in (BenchVerdict.NOT_MEASURED, BenchVerdict.MEASURED)


def test_a_server_that_only_fails_is_not_hammered(matrix: Matrix) -> None:
    with (
        Timed(Profile(fail_every=1)) as server,
        pytest.raises(DoctorError, match="cannot be measured"),
    ):
        bench(ask(server, matrix), matrix)
    with Timed() as server:

        def break_it(progress: Progress) -> None:
            server.profile = Profile(fail_every=1 if progress.place else 0)

        outcome = bench(ask(server, matrix, Load(users=8), requests=4000), matrix, break_it)
    (level,) = outcome.levels
    assert level.hopeless
    assert level.requests < 60
    assert "broken off" in outcome.notes[-1]


def test_ctrl_c_gives_what_there_is(matrix: Matrix) -> None:
    """The second load is broken off; what came until then counts."""
    loads = Load(users=1), Load(users=2)

    def interrupt(progress: Progress) -> None:
        if progress.place == 2 and progress.course and len(progress.course.samples) == 3:
            os.kill(os.getpid(), signal.SIGINT)

    assert threading.current_thread() is threading.main_thread()
    with Timed() as server:
        outcome = bench(ask(server, matrix, *loads, requests=8), matrix, interrupt)
    assert outcome.interrupted
    assert outcome.verdict is BenchVerdict.INTERRUPTED
    assert [level.requests for level in outcome.levels] in ([8, 3], [8, 4])
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


# -- servers of all kinds ----------------------------------------------------------------------


def run(profile: Profile, matrix: Matrix, lengths: str = "30x9") -> BenchOutcome:
    with Timed(profile) as server:
        return bench(ask(server, matrix, requests=4, lengths=lengths), matrix)


def test_a_server_that_only_chats(matrix: Matrix) -> None:
    outcome = run(Profile(chat_only=True), matrix)
    assert outcome.chat
    assert outcome.levels[0].output_tokens == 36


def test_a_server_that_does_not_force_lengths(matrix: Matrix) -> None:
    outcome = run(Profile(takes_ignore_eos=False, longest_answer=3), matrix)
    assert not outcome.forced
    assert outcome.levels[0].output_tokens == 12
    assert any("does not force" in note for note in outcome.notes)


@pytest.mark.parametrize("declares", [True, False])
def test_requests_are_cut_to_what_the_server_takes(declares: bool, matrix: Matrix) -> None:
    outcome = run(Profile(context=300, declares=declares, tpot=0.0005), matrix, "900x50")
    assert outcome.context
    assert 200 < outcome.context < 300
    assert outcome.levels[0].succeeded == 4
    assert outcome.levels[0].output_tokens == 200
    assert any("100% of the requests were cut" in note for note in outcome.notes)


def test_a_server_without_metrics(matrix: Matrix) -> None:
    outcome = run(Profile(metrics=False), matrix)
    assert outcome.levels[0].gauges is None


def test_a_server_that_counts_nothing_cannot_be_measured(matrix: Matrix) -> None:
    with pytest.raises(DoctorError, match="nothing can be counted"):
        run(Profile(usage=False), matrix)


def test_failures_are_counted_and_quoted(matrix: Matrix) -> None:
    with Timed(Profile(fail_every=5)) as server:
        outcome = bench(ask(server, matrix, requests=20, warm_up=0), matrix)
    (level,) = outcome.levels
    assert level.errors == {"http-500": 4}
    assert level.first_error == "out of <b>memory</b>"
    assert outcome.verdict is BenchVerdict.MISSED


def test_nothing_listens(matrix: Matrix) -> None:
    with Timed() as server:
        pass
    with pytest.raises(DoctorError, match="connection-refused"):
        bench(ask(server, matrix), matrix)


def test_a_key_is_sent_and_never_shown(matrix: Matrix, tmp_path: object) -> None:
    os.environ["BENCH_TEST_KEY"] = "canary-77"
    try:
        with Timed(Profile(key="canary-77")) as server:
            options = Options(server.url, users="1", lengths="9x2", limits=Limits(requests=2))
            with pytest.raises(DoctorError, match="unauthorized") as caught:
                bench(read_ask(options, matrix), matrix)
            assert "canary" not in str(caught.value)
            keyed = Options(**{**vars(options), "api_key": "env:BENCH_TEST_KEY"})
            outcome = bench(read_ask(keyed, matrix), matrix)
    finally:
        del os.environ["BENCH_TEST_KEY"]
    assert outcome.levels[0].succeeded == 2
    assert "canary" not in repr(outcome)


@pytest.mark.parametrize("length", range(4, 10))
def test_a_key_that_was_cut_off_is_hidden_too(length: int) -> None:
    key = Secret("env:K", "canary-77")
    assert key.hide(f"you sent {key.value[:length]}") == "you sent <env:K>"
    assert key.hide(f"{key.value} and can") == "<env:K> and can"
