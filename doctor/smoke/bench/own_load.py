"""How late this program itself was: what it measures can be no truer than that."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from dataclasses import dataclass

_EVERY_S = 0.05


@dataclass(frozen=True)
class OwnLoad:
    """`lag_s` is how late it woke up, 99 times of 100; `cpu` its share of one core."""

    lag_s: float
    cpu: float


class OwnWatch:
    """Watches the event loop from `start` to `stop`."""

    def __init__(self) -> None:
        self._late: list[float] = []
        self._task: asyncio.Task[None] | None = None
        self._began = self._spent = 0.0

    def start(self) -> None:
        """Begin to watch."""
        self._late = []
        self._began, self._spent = time.monotonic(), time.process_time()
        self._task = asyncio.create_task(self._watch())

    async def _watch(self) -> None:
        while True:
            before = time.monotonic()
            await asyncio.sleep(_EVERY_S)
            self._late.append(max(time.monotonic() - before - _EVERY_S, 0.0))

    async def stop(self) -> OwnLoad:
        """How it was."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
        wall = max(time.monotonic() - self._began, 1e-9)
        late = sorted(self._late)
        lag = late[int(0.99 * (len(late) - 1))] if late else 0.0
        return OwnLoad(lag, (time.process_time() - self._spent) / wall)
