"""`xpu-smi discovery`: one cell of fields for each Intel GPU.

Source: user guide of Intel XPU Manager and XPU System Management Interface.
"""

from __future__ import annotations

import re

from doctor.facts import UNSTATED, Device, Facts, seen
from doctor.probes.tool_text import fields, integer, lines, reading, value_or_none

AT = "xpu-smi discovery"
_TITLE = re.compile(r"^\| Device ID {1,9}\| Device Information {1,200}\|", re.MULTILINE)
_MOST = 1024


def looks_like(text: str) -> bool:
    """Tell by the heads of the columns."""
    return "Device Information" in text and _TITLE.search(text) is not None


def parse(text: str) -> Facts:
    """One device for each number in the first column."""
    bodies: dict[int, list[str]] = {}
    last = -1
    for line in lines(text):
        cells = [cell.strip() for cell in line.strip("|").split("|")] if "|" in line else []
        if len(cells) != 2 or len(bodies) > _MOST:
            continue
        if cells[0].isdecimal():
            last = int(cells[0][:6])
        if last >= 0:
            bodies.setdefault(last, []).append(cells[1])
    found = tuple(_device(number, "\n".join(body)) for number, body in bodies.items())
    return Facts(devices=seen(found, AT) if found else UNSTATED)


def _device(number: int, body: str) -> Device:
    told = fields(body)
    bus = value_or_none(told.get("PCI BDF Address"))
    return Device(
        id=f"xpu{number}",
        vendor="intel",
        index=number,
        pci=reading(bus.lower() if bus else None, AT),
        name=reading(value_or_none(told.get("Device Name")), AT),
        memory_mib=reading(integer(told.get("Memory Physical Size")), AT),
    )
