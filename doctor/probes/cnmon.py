"""The table of `cnmon`: two rows a card, then the processes.

Source: output of CNMON 5.10 as the installation pages of Paddle for MLU print it.
"""

from __future__ import annotations

import re
from dataclasses import replace

from doctor.facts import UNSTATED, CambriconFacts, Device, DeviceHealth, Facts, seen
from doctor.facts.accelerators import DeviceProcess
from doctor.probes.stated_version import version
from doctor.probes.tool_text import lines, reading

AT = "cnmon"
_TITLE = re.compile(r"^\| CNMON v?(\S{1,30}) {1,60}Driver v?(\S{1,30}) {0,9}\|", re.MULTILINE)
_FIRST = re.compile(
    r"(\d{1,4}) {1,9}\S{1,9} {1,9}(\S.{0,40}?) {1,9}\S{1,20}"  # card, VF, name, firmware
)
_BUS = re.compile(r"[0-9A-Fa-f]{4}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9A-Fa-f]")
_MEMORY = re.compile(r"(\d{1,9}) MiB/ {0,9}(\d{1,9}) MiB")
_CELSIUS = re.compile(r"\b(\d{1,3})C\b")
_PROCESS = re.compile(
    r"(\d{1,4}) {1,9}\S{1,9} {1,20}(\d{1,9}) {1,20}(\S{1,100}) {1,60}(\d{1,9}) ?MiB"
)
_MOST = 1024


def looks_like(text: str) -> bool:
    """Tell by the title row, which names tool and driver."""
    return "CNMON" in text and _TITLE.search(text) is not None


def parse(text: str) -> Facts:
    """The driver, and one device for each pair of rows."""
    title = _TITLE.search(text)
    if title is None:
        return Facts()
    driver = version(title[2], width=1)
    devices = _devices(text[title.end() :])
    return Facts(
        cambricon=CambriconFacts(driver=reading(driver, AT)),
        devices=seen(tuple(devices.values()), AT) if devices else UNSTATED,
    )


def _devices(text: str) -> dict[int, Device]:
    found: dict[int, Device] = {}
    last = -1
    for line in lines(text):
        cells = [cell.strip() for cell in line.strip("|").split("|")] if "|" in line else []
        first = _FIRST.fullmatch(cells[0]) if len(cells) == 3 else None
        if first and _BUS.fullmatch(cells[1]) and len(found) < _MOST:
            last = int(first[1])
            found[last] = _device(last, first[2], cells[1])
        elif len(cells) == 3 and last in found:
            found[last] = _with_figures(found[last], cells)
            last = -1
        elif len(cells) == 1:
            _add_process(found, cells[0])
    return found


def _device(number: int, name: str, bus: str) -> Device:
    return Device(
        id=f"mlu{number}",
        vendor="cambricon",
        index=number,
        pci=seen(bus.lower(), AT),
        name=seen(name, AT),
    )


def _with_figures(device: Device, cells: list[str]) -> Device:
    """The second row: temperature, and memory in use of the whole."""
    memory, celsius = _MEMORY.search(cells[1]), _CELSIUS.search(cells[0])
    used, total = (int(memory[1]), int(memory[2])) if memory else (0, 0)
    return replace(
        device,
        memory_mib=reading(total or None, AT),
        memory_free_mib=reading(max(total - used, 0) if total else None, AT),
        health=seen(DeviceHealth(temperature_c=int(celsius[1]) if celsius else None), AT),
    )


def _add_process(found: dict[int, Device], cell: str) -> None:
    row = _PROCESS.fullmatch(cell)
    if row is None or int(row[1]) not in found:
        return
    device = found[int(row[1])]
    process = DeviceProcess(int(row[2]), int(row[4]), row[3].rpartition("/")[2])
    known = device.processes.value or ()
    found[device.index or 0] = replace(device, processes=seen((*known, process), AT))
