"""The table of `npu-smi info`: HBM, card and 950 shapes, of any width.

Cells are split at the bars, never at columns: the widths differ between releases. The
header rows tell the shape; a device has two rows; memory is the last pair of the second.
Shapes: npu_info_print.c of the CANN open-source driver.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import Optional

from doctor.facts import UNSTATED, AscendFacts, Device, DeviceHealth, Facts, Reading, Version, seen
from doctor.facts.accelerators import DeviceProcess
from doctor.probes.stated_version import version
from doctor.probes.tool_text import lines, reading

AT = "npu-smi info"
_TITLE = re.compile(r"^\|? {0,4}npu-smi (\S{1,40}) {1,60}Version: {0,4}(\S{1,40})", re.MULTILINE)
_PAIR = re.compile(r"(\d{1,9}) {0,9}/ {0,9}(\d{1,9})")
_BUS = re.compile(r"[0-9A-Fa-f]{4}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9A-Fa-f]")
_VENDOR_SUFFIX = re.compile(r"\.sph\d+$", re.IGNORECASE)
# Whole SoC names only: "910B" is said of three generations.
_SOC = re.compile(r"(?<![\d._])(310P\d|910B\d[A-Z]?(?:-\d)?|910_\d{4})(?![\w-])")
_STATUS = frozenset({"ok", "warning", "alarm", "critical", "unknown"})


def soc_name(name: str) -> Optional[str]:
    """What the toolkit calls a chip: "910B3" is Ascend910B3; None if the name is not whole."""
    found = _SOC.search(name)
    return f"Ascend{found[1]}" if found else None


def looks_like(text: str) -> bool:
    """Tell by the title row, which names tool and driver."""
    return "npu-smi " in text and _TITLE.search(text) is not None


def parse(text: str) -> Facts:
    """The driver, and one device for each pair of rows."""
    title = _TITLE.search(text)
    if title is None:
        return Facts()
    driver = driver_version(title[2])
    return Facts(
        ascend=AscendFacts(driver=reading(driver, AT)), devices=_devices(text[title.end() :])
    )


def driver_version(text: str) -> Optional[Version]:
    """The driver's version without the mark of a vendor (".sph001")."""
    return version(_VENDOR_SUFFIX.sub("", text), width=1)


@dataclass
class _Rows:
    """Devices found so far, by NPU and chip; the first row of the one that is being read."""

    devices: dict[tuple[int, int], Device] = field(default_factory=dict)
    first: Optional[list[str]] = None
    has_logic_ids: bool = False


def _devices(text: str) -> Reading[tuple[Device, ...]]:
    rows = _Rows()
    in_processes = False
    for line in lines(text):
        if not line.startswith("|"):
            continue
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        in_processes = in_processes or "Process id" in line
        if in_processes:
            _add_process(rows.devices, cells)
        else:
            _add_row(rows, cells)
    return seen(tuple(rows.devices.values()), AT) if rows.devices else UNSTATED


def _add_row(rows: _Rows, cells: list[str]) -> None:
    """Take the header, the first or the second row of a device."""
    words = cells[0].split()
    if words[:1] == ["Chip"]:
        # A second number in the chip's cell is the logic id, or the physical one on A3.
        rows.has_logic_ids = len(words) > 1
    elif _status(cells):
        rows.first = cells
    elif rows.first is not None:
        ids = [int(word[:6]) for word in words if word.isdecimal()]
        npu = next((int(word[:6]) for word in rows.first[0].split() if word.isdecimal()), 0)
        logic = ids[1] if rows.has_logic_ids and len(ids) > 1 else len(rows.devices)
        rows.devices[npu, ids[0] if ids else 0] = _device(logic, rows.first, cells)
        rows.first = None


def _status(cells: list[str]) -> str:
    return next((cell for cell in cells[1:3] if cell.lower() in _STATUS), "")


def _device(logic: int, first: list[str], second: list[str]) -> Device:
    """Join the two rows. The name stands beside the NPU's id, or in a cell of its own."""
    name = " ".join(first[0].split()[1:]) or first[1]
    pairs = _PAIR.findall(second[-1])
    used, total = (int(pairs[-1][0]), int(pairs[-1][1])) if pairs else (0, 0)
    bus = next((cell.lower() for cell in second if _BUS.fullmatch(cell)), None)
    numbers = first[-1].split()
    celsius = int(numbers[1][:4]) if len(numbers) > 1 and numbers[1].isdecimal() else None
    return Device(
        id=f"npu{logic}",
        vendor="ascend",
        index=logic,
        pci=reading(bus, AT),
        name=seen(name, AT),
        soc=reading(soc_name(name), AT),
        memory_mib=reading(total or None, AT),
        memory_free_mib=reading(max(total - used, 0) if total else None, AT),
        health=seen(DeviceHealth(temperature_c=celsius, status=_status(first)), AT),
    )


def _add_process(devices: dict[tuple[int, int], Device], cells: list[str]) -> None:
    """A row of the process table, which names NPU and chip."""
    ids = [int(word[:6]) for word in cells[0].split() if word.isdecimal()]
    place = (ids[0] if ids else -1, ids[1] if len(ids) > 1 else 0)
    if len(cells) != 4 or not cells[1].isdecimal() or place not in devices:
        return
    memory = int(cells[3][:9]) if cells[3].isdecimal() else None
    process = DeviceProcess(int(cells[1][:12]), memory, cells[2])
    known = devices[place].processes.value or ()
    devices[place] = replace(devices[place], processes=seen((*known, process), AT))
