"""nvidia-smi as a second reader of driver and devices. Its banner, which changed, is not read."""

from __future__ import annotations

from typing import NamedTuple, Optional

from doctor.facts import Missing, Reading, Version, missing, seen
from doctor.probes import files
from doctor.probes.host import CommandResult, Host
from doctor.probes.nvml_values import pci_address

_FIELDS = ("driver_version", "pci.bus_id", "memory.total", "name")
COMMAND = ("nvidia-smi", f"--query-gpu={','.join(_FIELDS)}", "--format=csv,noheader,nounits")
_MOST_ROWS = 64


class SmiDevice(NamedTuple):
    """One row: the driver's version and one device; what was "[N/A]" is None."""

    driver: Optional[Version]
    pci: Optional[str]
    memory_mib: Optional[int]
    name: str


def read(host: Host, timeout_s: float) -> Reading[tuple[SmiDevice, ...]]:
    """One row a device; a tool that answers with an error is not readable."""
    answer = host.run(COMMAND, timeout_s)
    return files.relay(answer) if answer.value is None else parse_rows(answer.value)


def parse_rows(answer: CommandResult) -> Reading[tuple[SmiDevice, ...]]:
    """Read the CSV; the name stands last for it may hold commas."""
    if answer.returncode != 0:
        return missing(Missing.NOT_READABLE, f"nvidia-smi: exit {answer.returncode}")
    rows = [line.split(", ", len(_FIELDS) - 1) for line in answer.stdout.splitlines()[:_MOST_ROWS]]
    found = tuple(_device(*row) for row in rows if len(row) == len(_FIELDS))
    return seen(found, "nvidia-smi --query-gpu")


def _device(driver: str, bus: str, memory: str, name: str) -> SmiDevice:
    mib = int(memory) if memory.isascii() and memory.isdigit() and len(memory) < 12 else None
    return SmiDevice(Version.maybe(driver.strip()), _address(bus), mib or None, name.strip())


def _address(bus: str) -> Optional[str]:
    try:
        return pci_address(bus.strip())
    except ValueError:
        return None


def driver(rows: Reading[tuple[SmiDevice, ...]]) -> Reading[Version]:
    """The driver's version as nvidia-smi has it."""
    if rows.value is None:
        return files.relay(rows)
    versions = [row.driver for row in rows.value if row.driver is not None]
    return seen(versions[0], rows.at) if versions else missing(Missing.NOT_READABLE, rows.at)
