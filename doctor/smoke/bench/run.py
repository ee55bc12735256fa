"""One load test from what was asked to its outcome: agree, warm up, load by load, judge."""

from __future__ import annotations

import asyncio
import secrets
import signal
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from typing import Any, TypeVar

from doctor.errors import DoctorError, UsageError
from doctor.matrix import Matrix
from doctor.smoke.bench.ask import BenchAsk, Load
from doctor.smoke.bench.baseline import Saved
from doctor.smoke.bench.comparison import compare
from doctor.smoke.bench.devices import DeviceWatch, is_here
from doctor.smoke.bench.drive import Course, Drive, Ends
from doctor.smoke.bench.figures import Level, level
from doctor.smoke.bench.gauges import Watch, metric_names
from doctor.smoke.bench.judge import judge
from doctor.smoke.bench.knee import find_knee, is_past
from doctor.smoke.bench.lengths import Lengths
from doctor.smoke.bench.outcome import BenchOutcome, digest
from doctor.smoke.bench.own_load import OwnWatch
from doctor.smoke.bench.prompts import Prose
from doctor.smoke.bench.remarks import remarks
from doctor.smoke.bench.sample import Sample, take
from doctor.smoke.bench.terms import Terms, agree
from doctor.smoke.calls import Request
from doctor.smoke.client import Client, http_library

T = TypeVar("T")
# Of what a server says of an error, so much is shown.
_WORDS = 300
# Of a load's time, the most that users may take to start.
_RAMP = 0.25


@dataclass(frozen=True)
class Progress:
    """How far it is. `load` is None while warming up; `place` of `of` loads, from 1."""

    load: Load | None
    place: int = 0
    of: int = 0
    course: Course | None = None
    seconds: float = 0.0
    total_s: float = 0.0


Say = Callable[[Progress], None]


def bench(ask: BenchAsk, matrix: Matrix, say: Say = lambda _: None) -> BenchOutcome:
    """Measure a server. Ctrl-C ends it with what there is. Raises DoctorError."""
    http_library()
    outcome = asyncio.run(_Bench(ask, matrix, say).run())
    levels = tuple(
        replace(found, first_error=ask.key.hide(found.first_error)[:_WORDS])
        for found in outcome.levels
    )
    return replace(outcome, levels=levels)


def expect_comparable(ask: BenchAsk, saved: Sequence[Saved]) -> None:
    """Raise UsageError for an earlier run that asked for other things, before any work."""
    for run in saved:
        if run.digest != digest(ask.lengths):
            raise UsageError(
                f"{run.name} was measured with other lengths ({run.lengths})",
                "the same --lengths, --max-prompt and --max-output make runs comparable",
            )
        if not set(ask.loads) & set(run.series):
            known = ", ".join(str(load) for load in run.series)
            raise UsageError(f"{run.name} has no load in common, only {known}", "--concurrency")


def against(outcome: BenchOutcome, saved: Sequence[Saved], tolerance: float) -> BenchOutcome:
    """The outcome with its comparison to earlier runs."""
    notes = []
    for run in saved:
        if run.model != outcome.model:
            notes.append(f"{run.name} is of another model: {run.model}")
        if (run.context, run.forced) != (outcome.context, outcome.forced):
            notes.append(f"{run.name} had answers or prompts of other lengths: another server")
    found = compare(outcome.levels, saved, tolerance, tuple(notes))
    if found.is_worse and len(saved) == 1:
        more = "one earlier run cannot show how much runs differ: name several with --baseline"
        found = replace(found, notes=(*found.notes, more))
    return replace(outcome, comparison=found)


class _Bench:
    def __init__(self, ask: BenchAsk, matrix: Matrix, say: Say) -> None:
        self._ask = ask
        self._matrix = matrix
        self._say = say
        self._stop = asyncio.Event()
        self._began = time.monotonic()
        self._levels: list[Level] = []
        self._notes: list[str] = []

    async def run(self) -> BenchOutcome:
        began = datetime.now(timezone.utc).isoformat(timespec="seconds")
        self._began = time.monotonic()
        terms, lengths = Terms(self._ask.model), self._ask.lengths
        limits = self._ask.limits
        async with Client(self._ask.url, self._ask.key.value, limits.request_s) as client:
            with _stopped_by_signals(self._stop):
                self._say(Progress(None, total_s=limits.total_s))
                agreed = await self._unless_stopped(agree(client, self._ask))
                if agreed is not None:
                    terms, lengths = agreed
                    await self._loads(client, terms, lengths)
        return self._outcome(terms, began)

    @property
    def _until(self) -> float:
        return self._began + self._ask.limits.total_s

    def _is_over(self) -> bool:
        return self._stop.is_set() or time.monotonic() >= self._until

    async def _unless_stopped(self, work: Coroutine[Any, Any, T]) -> T | None:
        """The work's result; None if it was stopped. Raises DoctorError if time was up."""
        task = asyncio.ensure_future(work)
        stopped = asyncio.ensure_future(self._stop.wait())
        left = max(self._until - time.monotonic(), 0.0)
        done, _ = await asyncio.wait(
            {task, stopped}, timeout=left, return_when=asyncio.FIRST_COMPLETED
        )
        stopped.cancel()
        if task in done:
            return task.result()
        task.cancel()
        with suppress(asyncio.CancelledError, DoctorError):
            await task
        if not self._stop.is_set():
            total = f"{self._ask.limits.total_s:g} s"
            raise DoctorError(f"nothing could be measured within {total}", "--max-time SECONDS")
        return None

    async def _loads(self, client: Client, terms: Terms, lengths: Lengths) -> None:
        warm = await self._unless_stopped(self._warm_up(client, terms, lengths))
        if warm is None:
            return
        usual = sorted(sample.latency for sample in warm if not sample.fault)
        spread_s = min(usual[len(usual) // 2] if usual else 0.0, _RAMP * self._ask.limits.seconds)
        for place, load in enumerate(self._ask.loads):
            if self._is_over():
                break
            jobs = self._jobs(terms, lengths, str(load))
            self._levels.append(await self._level(client, jobs, place, spread_s))
            if self._is_enough():
                break
        if not self._stop.is_set() and time.monotonic() >= self._until:
            self._notes.append(f"time was up after {self._ask.limits.total_s:g} s (--max-time)")

    def _is_enough(self) -> bool:
        last = self._levels[-1]
        if last.hopeless:
            self._notes.append(f"broken off at {last.load}: nothing but failures came")
            return True
        if self._ask.stops_early and is_past(self._levels):
            self._notes.append(f"ended at {last.load}: twice the load brought no more")
            return True
        return False

    def _jobs(self, terms: Terms, lengths: Lengths, name: str) -> Iterator[Request]:
        """Requests without end. Their lengths are the same for the same seed.

        Their words are not: the server may still have those of an earlier run in a cache.
        """
        prose = Prose(secrets.token_hex(8))
        pairs = lengths.draw(f"{self._ask.seed} {name}")
        return (terms.request(prose, pair) for pair in pairs)

    async def _warm_up(self, client: Client, terms: Terms, lengths: Lengths) -> list[Sample]:
        jobs = self._jobs(terms, lengths, "warm-up")
        began = time.monotonic()
        samples = []
        for _ in range(self._ask.warm_up):
            due = time.monotonic() - began
            samples.append(await take(client, next(jobs), began, due, self._ask.limits.request_s))
        return samples

    async def _level(
        self, client: Client, jobs: Iterator[Request], place: int, spread_s: float
    ) -> Level:
        ask, load = self._ask, self._ask.loads[place]

        def seen(course: Course) -> None:
            spent = time.monotonic() - self._began
            self._say(Progress(load, place + 1, len(ask.loads), course, spent, ask.limits.total_s))

        watch = Watch(client, metric_names(self._matrix.launches))
        devices, own = DeviceWatch(), OwnWatch()
        await watch.start()
        if is_here(ask.url):
            await devices.start()
        own.start()
        ends = Ends(ask.limits, self._stop, self._until)
        drive = Drive(client, jobs, load, ends, seen)
        course = await drive.run(spread_s, f"{ask.seed} {load}")
        late = await own.stop()
        return level(course, await watch.stop(), await devices.stop(), late)

    def _outcome(self, terms: Terms, began: str) -> BenchOutcome:
        levels = tuple(found for found in self._levels if found.requests)
        knee = find_knee(levels)
        judged = knee.level if knee else len(levels) - 1 if levels else None
        targets = self._matrix.serving.targets
        notes = (*remarks(self._ask.lengths, terms, levels), *self._notes)
        return BenchOutcome(
            url=self._ask.url,
            model=terms.model,
            lengths=self._ask.lengths,
            chat=terms.chat,
            forced=terms.forced,
            context=terms.context,
            seed=self._ask.seed,
            levels=levels,
            knee=knee,
            judged=judged,
            judgements=()
            if judged is None
            else judge(levels[judged], targets, self._ask.ttft_limit_s),
            notes=notes,
            interrupted=self._stop.is_set(),
            began=began,
            seconds=time.monotonic() - self._began,
        )


@contextmanager
def _stopped_by_signals(stop: asyncio.Event) -> Iterator[None]:
    """Within it Ctrl-C and SIGTERM end the test in good order; a second Ctrl-C at once."""
    loop = asyncio.get_running_loop()
    numbers = (signal.SIGINT, signal.SIGTERM)

    def asked_to_stop() -> None:
        stop.set()
        for number in numbers:
            loop.remove_signal_handler(number)

    # Only the main thread takes signals.
    with suppress(RuntimeError, ValueError, NotImplementedError):
        for number in numbers:
            loop.add_signal_handler(number, asked_to_stop)
    try:
        yield
    finally:
        with suppress(RuntimeError, ValueError, NotImplementedError):
            for number in numbers:
                loop.remove_signal_handler(number)
