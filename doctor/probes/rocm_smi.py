"""`rocm-smi`: its concise table, and the `GPU[n] : key: value` lines of its other views."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import islice

from doctor.facts import UNSTATED, Device, Facts, RocmFacts, Version, seen
from doctor.probes.tool_text import integer, reading, value_or_none

AT = "rocm-smi"
_TITLE = "ROCm System Management Interface"
_LINE = re.compile(
    r"^GPU\[(\d{1,3})\][ \t]{0,9}: {0,3}([^:\n]{1,60}):[ \t]{0,9}([^\n]{0,120})$", re.MULTILINE
)
_ROW = re.compile(
    r"^(\d{1,3})[ \t]{1,9}(?:\d{1,3}[ \t]{1,9})?(0x[0-9a-f]{4}),[ \t]{1,9}\d{1,9}[ \t]",
    re.MULTILINE | re.IGNORECASE,
)
_PLAIN_ROW = re.compile(r"^(\d{1,3})[ \t]{1,9}[\d.]{1,6}.?[cC][ \t]", re.MULTILINE)
_DRIVER = re.compile(r"^Driver version:[ \t]{0,9}([\d.]{1,20})", re.MULTILINE)
_NAMES = ("card series", "card model", "device name", "card sku")


def looks_like(text: str) -> bool:
    """Tell by the title of the tool."""
    return _TITLE in text


def parse(text: str) -> Facts:
    """One device a row; names, targets and memory where a view prints them."""
    found: dict[int, Device] = {}
    for match in islice(_PLAIN_ROW.finditer(text), 1024):
        _device(found, int(match[1]))
    for match in islice(_ROW.finditer(text), 1024):
        device = _device(found, int(match[1]))
        pci_id = f"1002:{match[2][2:].lower()}"
        found[int(match[1])] = replace(device, pci_id=seen(pci_id, AT))
    for match in islice(_LINE.finditer(text), 1500):
        device = _device(found, int(match[1]))
        found[int(match[1])] = _told(device, match[2].strip().lower(), match[3].strip())
    driver = _DRIVER.search(text)
    return Facts(
        rocm=RocmFacts(driver=reading(Version.maybe(driver[1]) if driver else None, AT)),
        devices=seen(tuple(found.values()), AT) if found else UNSTATED,
    )


def _device(found: dict[int, Device], number: int) -> Device:
    return found.setdefault(number, Device(id=f"gpu{number}", vendor="amd", index=number))


def _told(device: Device, key: str, value: str) -> Device:
    """Add what one line says of a device."""
    text = value_or_none(value)
    if text is None:
        return device
    if key in _NAMES and not text.startswith("0x") and not device.name.is_known:
        return replace(device, name=seen(text, AT))
    if key == "gfx version":
        return replace(device, gfx=seen(text.lower(), AT))
    if key == "pci bus":
        return replace(device, pci=seen(text.lower(), AT))
    size = integer(text)
    if key == "vram total memory (b)" and size:
        return replace(device, memory_mib=seen(size >> 20, AT))
    if key == "vram total used memory (b)" and size is not None and device.memory_mib.value:
        free = max(device.memory_mib.value - (size >> 20), 0)
        return replace(device, memory_free_mib=seen(free, AT))
    return device
