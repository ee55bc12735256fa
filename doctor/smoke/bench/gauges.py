"""Watch an engine's metrics while it is under load: queue, use of the KV cache, counted tokens."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from doctor.matrix.launching import Launch
from doctor.smoke.calls import CallFault
from doctor.smoke.client import Client
from doctor.smoke.metrics import parse_metrics, pick

Names = Mapping[str, tuple[str, ...]]
_EVERY_S, _PATIENCE_S = 0.5, 5.0
_GAUGES = ("running", "waiting", "kv_usage")
_COUNTERS = ("prompt_tokens", "generated_tokens", "cached_tokens", "preemptions")
_HISTOGRAMS = ("ttft", "tpot")


@dataclass(frozen=True)
class Gauge:
    """Mean and highest of what was read while the load lasted."""

    mean: float
    high: float


@dataclass(frozen=True)
class Gauges:
    """What the engine's metrics said; a figure that they lack is not there.

    `gauges`: running, waiting (requests), kv_usage (share). `counted` is what counters
    rose by: prompt_tokens, generated_tokens, cached_tokens, preemptions. `means` are
    seconds by the server's own clock: ttft, tpot.
    """

    gauges: dict[str, Gauge]
    counted: dict[str, float]
    means: dict[str, float]


def metric_names(rows: Sequence[Launch]) -> dict[str, tuple[str, ...]]:
    """Metrics by what they count, of all these engines together."""
    names: dict[str, tuple[str, ...]] = {}
    for row in rows:
        for what, metrics in row.counters.items():
            names[what] = tuple(dict.fromkeys((*names.get(what, ()), *metrics)))
    return names


class Watch:
    """Reads the metrics of a server again and again, from `start` to `stop`."""

    def __init__(self, client: Client, names: Names, path: str = "/metrics") -> None:
        self._client = client
        self._names = names
        self._path = path
        self._readings: list[dict[str, float]] = []
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Read once; if there are metrics, go on reading beside other work."""
        self._readings = []
        if await self._read():
            self._task = asyncio.create_task(self._go_on())

    async def stop(self) -> Gauges | None:
        """Read a last time; None for a server that shows no metrics of an engine."""
        if self._task is None:
            return None
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task
        self._task = None
        await self._read()
        return summed(self._readings, self._names)

    async def _go_on(self) -> None:
        while True:
            await asyncio.sleep(_EVERY_S)
            await self._read()

    async def _read(self) -> bool:
        try:
            answer = await self._client.get(self._path, _PATIENCE_S)
        except CallFault:
            return False
        if answer.status != 200:
            return False
        found = reading(answer.text, self._names)
        if found:
            self._readings.append(found)
        return bool(found)


def reading(text: str, names: Names) -> dict[str, float]:
    """The metrics of these names, summed over their labels; of shares the mean. Pure."""
    wanted = {name for listed in names.values() for name in listed}
    found = {n: v for n, v in parse_metrics(text).items() if n in wanted
             or n.removesuffix("_sum") in wanted or n.removesuffix("_count") in wanted}  # fmt: skip
    for name in names.get("kv_usage", ()):
        if name in found:
            # One for each replica of the model.
            found[name] /= max(len(re.findall(rf"^{re.escape(name)}[ {{]", text, re.M)), 1)
    return found


def summed(readings: Sequence[Mapping[str, float]], names: Names) -> Gauges | None:
    """What readings in a row come to; None without any. Pure."""
    if not readings:
        return None
    first, last = dict(readings[0]), dict(readings[-1])
    gauges = {}
    for what in _GAUGES:
        values = [pick(dict(reading), names.get(what, ())) for reading in readings]
        seen = [value for value in values if value is not None]
        if seen:
            gauges[what] = Gauge(sum(seen) / len(seen), max(seen))
    counted = {}
    for what in _COUNTERS:
        before, after = (pick(reading, names.get(what, ())) for reading in (first, last))
        if after is not None:
            counted[what] = after - (before or 0.0)
    means = {}
    for what in _HISTOGRAMS:
        mean = _mean(first, last, names.get(what, ()))
        if mean is not None:
            means[what] = mean
    return Gauges(gauges, counted, means)


def _mean(first: dict[str, float], last: dict[str, float], names: tuple[str, ...]) -> float | None:
    """Mean of what a histogram took up between two readings."""
    for name in names:
        total, count = (last.get(f"{name}_{part}") for part in ("sum", "count"))
        if total is not None and count is not None:
            total -= first.get(f"{name}_sum", 0.0)
            count -= first.get(f"{name}_count", 0.0)
            return total / count if count > 0 else None
    return None
