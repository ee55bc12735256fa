"""Accelerators of other makers, as far as the kernel's files tell: Intel and Cambricon.

They are recognised, and their memory and names read where a file has them.
Sources: kernel documentation of i915 and xe (sysfs); Cambricon driver's /proc folder.
"""

from __future__ import annotations

from dataclasses import replace

from doctor.facts import Device, Facts, Missing, Reading, missing, seen
from doctor.probes import pci
from doctor.probes.host import Host
from doctor.probes.tool_text import fields, value_or_none

_MLUS = "/proc/driver/cambricon/mlus"
_NAMES = ("Device name", "Device Name", "Product Name")


def read(host: Host, facts: Facts) -> Facts:
    """Fill what is known of each device of these makers."""
    read_one = {"intel": _intel, "cambricon": _cambricon}
    devices = tuple(
        read_one[device.vendor](host, device) if device.vendor in read_one else device
        for device in facts.devices.value or ()
    )
    return replace(facts, devices=replace(facts.devices, value=devices))


def _intel(host: Host, device: Device) -> Device:
    """A discrete card states its memory; one that is part of the processor has none."""
    folder = f"{pci.DEVICES}/{device.pci.value}"
    cards = [name for name in host.list_dir(f"{folder}/drm").value or () if "card" in name]
    paths = [f"{folder}/drm/{card}/lmem_total_bytes" for card in cards]
    paths.append(f"{folder}/tile0/physical_vram_size_bytes")
    link = pci.read_link(host, device.pci.value or "")
    return replace(device, memory_mib=_memory(host, paths), link=link)


def _memory(host: Host, paths: list[str]) -> Reading[int]:
    for path in paths:
        text = (host.read_text(path, 64).value or "").strip()
        try:
            size = int(text, 0)
        except ValueError:
            continue
        return seen(size >> 20, path)
    return missing(Missing.NOT_STATED, paths[0])


def _cambricon(host: Host, device: Device) -> Device:
    text = host.read_text(f"{_MLUS}/{device.pci.value}/information", 1 << 14)
    told = fields(text.value or "")
    name = next(filter(None, (value_or_none(told.get(key)) for key in _NAMES)), None)
    reason = missing(text.missing or Missing.NOT_READABLE, text.at)
    link = pci.read_link(host, device.pci.value or "")
    return replace(device, name=seen(name, text.at) if name else reason, link=link)
