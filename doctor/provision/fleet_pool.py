"""Many commands at once, each with a deadline, each ended with all that it started."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass

_GRACE_S = 30.0
_MOST_ERRORS = 1 << 20


@dataclass(frozen=True)
class Job:
    """A command for one host, and what goes to its standard input."""

    name: str
    argv: tuple[str, ...]
    data: bytes = b""


@dataclass(frozen=True)
class Ended:
    """How a job ended; `code` is None if its deadline ended it, `missing` a program that lacks."""

    name: str
    code: int | None
    out: bytes = b""
    err: bytes = b""
    seconds: float = 0.0
    missing: str = ""

    @property
    def said(self) -> str:
        """The end of what it said on standard error, else of what it printed.

        Docker prints there that a program is not to be found.
        """
        return (self.err.strip() or self.out.strip())[-600:].decode("utf-8", "replace")


class Pool:
    """Runs jobs, at most `forks` at a time. `gently` asks a job to end before it is killed.

    A job that says more than `limit_bytes` (0: no limit) is ended. Ctrl-C ends all of them.
    """

    def __init__(
        self, forks: int, limit_s: float, gently: bool = False, limit_bytes: int = 0
    ) -> None:
        self.forks, self.limit_s = forks, limit_s
        self.gently, self.limit_bytes = gently, limit_bytes
        self._running: set[subprocess.Popen[bytes]] = set()

    def run(
        self, jobs: Iterable[Job], begins: Callable[[str], None] = lambda _: None
    ) -> Iterator[Ended]:
        """The ends of the jobs, as they come."""
        waiting, futures = list(jobs), set[Future[Ended]]()
        with ThreadPoolExecutor(self.forks) as workers:
            try:
                # No more than a few are handed out ahead: what was read of hosts is not piled up.
                while waiting or futures:
                    while waiting and len(futures) < self.forks:
                        begins(waiting[0].name)
                        futures.add(workers.submit(self._one, waiting.pop(0)))
                    done, futures = wait(futures, return_when=FIRST_COMPLETED)
                    yield from (future.result() for future in done)
            except BaseException:
                self._stop()
                raise

    def _one(self, job: Job) -> Ended:
        began = time.monotonic()
        # Into files, so that what a machine says does not fill the memory.
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            try:
                child = subprocess.Popen(
                    job.argv,
                    stdin=subprocess.PIPE,
                    stdout=out,
                    stderr=err,
                    start_new_session=True,
                )
            except OSError as fault:
                return Ended(job.name, 127, missing=str(fault.filename or job.argv[0]))
            code = self._watched(child, job.data)
            for file in (out, err):
                file.seek(0)
            # What it wrote before its limit was set may be more.
            said = out.read(self.limit_bytes or -1), err.read(_MOST_ERRORS)
        return Ended(job.name, code, *said, round(time.monotonic() - began, 2))

    def _watched(self, child: subprocess.Popen[bytes], data: bytes) -> int | None:
        """Feed a job and wait for its end; None if its deadline ended it."""
        self._running.add(child)
        try:
            if self.limit_bytes:
                with suppress(OSError):  # it may have ended already
                    limit = (self.limit_bytes, self.limit_bytes)
                    resource.prlimit(child.pid, resource.RLIMIT_FSIZE, limit)
            child.communicate(data, timeout=self.limit_s)
            return child.returncode
        except subprocess.TimeoutExpired:
            self._end(child)
            return None
        finally:
            self._running.discard(child)

    def _end(self, child: subprocess.Popen[bytes]) -> None:
        """End a job and all that it started; one that keeps a journal gets time to close it."""
        if self.gently:
            with suppress(ProcessLookupError):
                child.terminate()
            with suppress(subprocess.TimeoutExpired):
                child.wait(_GRACE_S)
                return
        with suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()

    def _stop(self) -> None:
        for child in list(self._running):
            with suppress(ProcessLookupError):
                if self.gently:
                    child.send_signal(signal.SIGINT)
                else:
                    os.killpg(child.pid, signal.SIGKILL)
