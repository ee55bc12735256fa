"""Accelerators of Intel and Cambricon: the kernel's files first, the makers' tools after them.

Sources: kernel documentation of i915 and xe (sysfs); Cambricon driver's /proc folder.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple, Optional

from doctor.facts import (
    CambriconFacts,
    Device,
    Facts,
    Missing,
    Reading,
    Version,
    missing,
    seen,
)
from doctor.probes import access, cnmon, files, pci, xpu_smi
from doctor.probes.host import Host
from doctor.probes.tool_text import fields, value_or_none

_MLUS = "/proc/driver/cambricon/mlus"
_NAMES = ("Device name", "Device Name", "Product Name")
_NODE = re.compile(r"cambricon_(?:dev\d{1,4}|ctl)|cambricon-caps")
_ASK_S = 15.0


class _Maker(NamedTuple):
    """How devices of one maker are looked at, and which tool is asked where files are silent."""

    look: Callable[[Host, Device], Device]
    tool: tuple[str, ...]
    parse: Callable[[str], Facts]


def read(host: Host, facts: Facts) -> Facts:
    """Fill what is known of each device of these makers."""
    makers = {
        "intel": _Maker(_intel, ("xpu-smi", "discovery"), xpu_smi.parse),
        "cambricon": _Maker(_cambricon, ("cnmon",), cnmon.parse),
    }
    here = {device.vendor for device in facts.devices.value or ()}
    if "cambricon" in here:
        facts = replace(facts, cambricon=_driver(host, facts.devices.value or ()))
    for vendor, maker in makers.items():
        facts = _described(host, facts, vendor, maker) if vendor in here else facts
    return facts


def _described(host: Host, facts: Facts, vendor: str, maker: _Maker) -> Facts:
    """Devices as files describe them, with what the tool adds where these are silent."""
    devices = facts.devices.value or ()
    looked = {d.id: maker.look(host, d) for d in devices if d.vendor == vendor}
    told = Facts()
    if not all(device.memory_mib.is_known and device.name.is_known for device in looked.values()):
        answer = host.run(maker.tool, _ASK_S)
        told = maker.parse(answer.value.stdout) if answer.value is not None else told
    listed = {device.pci.value: device for device in told.devices.value or ()}
    whole = (
        _filled(looked[d.id], listed.get(d.pci.value)) if d.id in looked else d for d in devices
    )
    facts = replace(facts, devices=replace(facts.devices, value=tuple(whole)))
    driver = facts.cambricon.driver
    if driver.is_known or not told.cambricon.driver.is_known:
        return facts
    return replace(facts, cambricon=replace(facts.cambricon, driver=told.cambricon.driver))


def _filled(device: Device, told: Optional[Device]) -> Device:
    if told is None:
        return device
    names = ("name", "memory_mib", "memory_free_mib", "health", "processes")
    added = {n: getattr(told, n) for n in names if not getattr(device, n).is_known}
    known = {name: value for name, value in added.items() if value.is_known}
    return replace(device, index=told.index, **known)


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
    text = _information(host, device)
    told = fields(text.value or "")
    name = next(filter(None, (value_or_none(told.get(key)) for key in _NAMES)), None)
    reason = missing(text.missing or Missing.NOT_READABLE, text.at)
    link = pci.read_link(host, device.pci.value or "")
    return replace(device, name=seen(name, text.at) if name else reason, link=link)


def _information(host: Host, device: Device) -> Reading[str]:
    return host.read_text(f"{_MLUS}/{device.pci.value}/information", 1 << 14)


def _driver(host: Host, devices: tuple[Device, ...]) -> CambriconFacts:
    """The driver's version as it states it for each device, and its nodes."""
    texts = [_information(host, d) for d in devices if d.vendor == "cambricon"]
    stated = (fields(text.value or "").get("Driver Version", "") for text in texts)
    found = next(filter(None, (Version.maybe(text.lstrip("vV")) for text in stated)), None)
    unread: Reading[Version] = missing(Missing.NOT_READABLE, texts[0].at)
    if texts[0].value is None:
        unread = files.relay(texts[0])
    names = host.list_dir("/dev")
    nodes = files.relay(names) if names.value is None else _nodes(host, names.value)
    return CambriconFacts(driver=seen(found, texts[0].at) if found else unread, nodes=nodes)


def _nodes(host: Host, names: tuple[str, ...]) -> Reading[tuple[str, ...]]:
    paths = tuple(f"/dev/{name}" for name in names if _NODE.fullmatch(name))
    return access.open_nodes(host, seen(paths, "/dev"))
