"""Send the requests of one load: users who wait for their answers, or arrivals that do not."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field

from doctor.smoke.bench.ask import MOST_USERS, Limits, Load
from doctor.smoke.bench.sample import Sample, take
from doctor.smoke.calls import Request
from doctor.smoke.client import Client

# After so many failures in a row nothing more is learnt.
_HOPELESS = 20
# A server that refuses at once must not be asked as fast as it can refuse.
_PAUSE_S = 0.1


@dataclass
class Course:
    """What one load gave.

    Times are seconds since it began: `ramp` when the last user had started, `dry` when
    there was nothing more to send, `ended` when all had come back.
    `unfinished` requests were given up at the end of all time; `hopeless` says that it was
    broken off because nothing but failures came.
    """

    load: Load
    wanted: int
    samples: list[Sample] = field(default_factory=list)
    ramp: float = 0.0
    dry: float = 0.0
    ended: float = 0.0
    unfinished: int = 0
    hopeless: bool = False


@dataclass(frozen=True)
class Ends:
    """What ends a load: its limits, `stop` at once, `until` on the monotonic clock at last."""

    limits: Limits
    stop: asyncio.Event
    until: float


class Drive:
    """Sends one load. `jobs` gives the requests, `seen` is told of every answer."""

    def __init__(
        self,
        client: Client,
        jobs: Iterator[Request],
        load: Load,
        ends: Ends,
        seen: Callable[[Course], None],
    ) -> None:
        self.course = Course(load, ends.limits.requests_of(load))
        self._client = client
        self._jobs = jobs
        self._limits = ends.limits
        self._ends = ends
        self._seen = seen
        self._began = time.monotonic()
        self._sent = self._flying = self._failures = 0

    async def run(self, spread_s: float, seed: str) -> Course:
        """Send it all. Users start one after the other within `spread_s`, as people do."""
        self._began = time.monotonic()
        work = self._arrivals(seed) if self.course.load.is_open else self._users(spread_s)
        main = asyncio.create_task(work)
        stopped = asyncio.create_task(self._ends.stop.wait())
        left = max(self._ends.until - time.monotonic(), 0.0)
        await asyncio.wait({main, stopped}, timeout=left, return_when=asyncio.FIRST_COMPLETED)
        self.course.unfinished = self._flying
        for task in (main, stopped):
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        self.course.ended = self._now()
        self.course.dry = self.course.dry or self.course.ended
        return self.course

    def _now(self) -> float:
        return time.monotonic() - self._began

    async def _users(self, spread_s: float) -> None:
        count = self.course.load.users
        self.course.ramp = spread_s * (count - 1) / count
        await asyncio.gather(*(self._user(spread_s * n / count) for n in range(count)))

    async def _user(self, wait_s: float) -> None:
        await asyncio.sleep(wait_s)
        while (job := self._next()) is not None:
            await self._send(job, self._now())
            if self._failures:
                await asyncio.sleep(_PAUSE_S)

    async def _arrivals(self, seed: str) -> None:
        """Requests at times that a Poisson process sets, however long answers take.

        A request that had to wait for its turn here has waited all the same: times count
        from when it was due.
        """
        chance = random.Random(seed)  # noqa: S311 - to repeat, not to hide
        room = asyncio.Semaphore(MOST_USERS)
        tasks: set[asyncio.Task[None]] = set()
        due = 0.0

        def landed(task: asyncio.Task[None]) -> None:
            tasks.discard(task)
            room.release()

        try:
            while due < self._limits.seconds:
                await asyncio.sleep(due - self._now())
                await room.acquire()
                job = self._next()
                if job is None:
                    break
                task = asyncio.create_task(self._send(job, due))
                tasks.add(task)
                task.add_done_callback(landed)
                due += chance.expovariate(self.course.load.rate)
            self.course.dry = self.course.dry or self._now()
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()

    def _next(self) -> Request | None:
        """The next request, or None if there is no more to send."""
        course = self.course
        course.hopeless = self._failures >= _HOPELESS
        over = self._sent >= course.wanted or self._now() >= self._limits.seconds
        if over or course.hopeless or self._ends.stop.is_set():
            course.dry = course.dry or self._now()
            return None
        self._sent += 1
        return next(self._jobs)

    async def _send(self, job: Request, due: float) -> None:
        self._flying += 1
        try:
            sample = await take(self._client, job, self._began, due, self._limits.request_s)
        finally:
            self._flying -= 1
        self._failures = self._failures + 1 if sample.fault else 0
        self.course.samples.append(sample)
        self._seen(self.course)
