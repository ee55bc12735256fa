"""Watch this machine's NVIDIA devices while a server on it is under load, by nvidia-smi.

The tool runs as a child that is killed when the load ends, so a driver that hangs costs
nothing. Without it, or for a server elsewhere, use of devices stays unknown.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from urllib.parse import urlsplit

COMMAND = (
    "nvidia-smi",
    "--query-gpu=index,utilization.gpu,memory.used,memory.total",
    "--format=csv,noheader,nounits",
    "--loop-ms=500",
)
_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_END_S = 2.0


@dataclass(frozen=True)
class DeviceUse:
    """Use of the devices that worked: mean share of time, highest share of memory."""

    devices: int
    utilization: float
    memory: float


def is_here(url: str) -> bool:
    """True if the server's address is this machine's loopback."""
    return (urlsplit(url).hostname or "") in _LOOPBACK


class DeviceWatch:
    """Reads nvidia-smi from `start` to `stop`."""

    def __init__(self, command: tuple[str, ...] = COMMAND) -> None:
        self._command = command
        self._child: asyncio.subprocess.Process | None = None
        self._reader: asyncio.Task[None] | None = None
        self._lines: list[str] = []

    async def start(self) -> None:
        """Start the tool; nothing happens if it is not there."""
        self._lines = []
        try:
            self._child = await asyncio.create_subprocess_exec(
                *self._command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,
                start_new_session=True,
            )
        except OSError:
            return
        self._reader = asyncio.create_task(self._read(self._child))

    async def _read(self, child: asyncio.subprocess.Process) -> None:
        while child.stdout is not None and (line := await child.stdout.readline()):
            self._lines.append(line[:200].decode("ascii", "replace"))

    async def stop(self) -> DeviceUse | None:
        """End the tool; what it said, None if it said nothing of use."""
        child, reader = self._child, self._reader
        self._child = self._reader = None
        if child is None or reader is None:
            return None
        with suppress(ProcessLookupError):
            child.kill()
        reader.cancel()
        with suppress(asyncio.CancelledError):
            await reader
        # A child that hangs in the driver does not die; it is not waited for.
        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(child.wait(), _END_S)
        return use_of(self._lines)


def use_of(lines: list[str]) -> DeviceUse | None:
    """What lines "index, utilization %, used MiB, total MiB" come to. Pure.

    Devices that never computed while the load lasted belong to somebody else.
    """
    shares: dict[str, list[tuple[float, float]]] = {}
    for line in lines:
        parts = [part.strip() for part in line.split(",")]
        if len(parts) == 4 and all(p.isascii() and p.isdigit() for p in parts) and int(parts[3]):
            index, busy, used, total = parts
            shares.setdefault(index, []).append((int(busy) / 100, int(used) / int(total)))
    busy_ones = [rows for rows in shares.values() if any(busy > 0 for busy, _ in rows)]
    if not busy_ones:
        return None
    means = [sum(busy for busy, _ in rows) / len(rows) for rows in busy_ones]
    highs = [max(memory for _, memory in rows) for rows in busy_ones]
    return DeviceUse(len(busy_ones), sum(means) / len(means), max(highs))
