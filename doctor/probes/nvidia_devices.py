"""Devices put together from what PCI, NVML and nvidia-smi say of them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Optional

from doctor.facts import Device, Missing, Reading, missing, seen
from doctor.probes import pci
from doctor.probes.host import Host
from doctor.probes.nvidia_smi import SmiDevice
from doctor.probes.pci import PciFunction

_MODEL = re.compile(r"^Model:\s{1,20}(\S[^\n]{0,100})", re.MULTILINE)
_PREFIXES = {"amd": "amd", "intel": "intel", "ascend": "npu", "cambricon": "mlu"}


def merge(
    host: Host,
    functions: Iterable[PciFunction],
    listed: Reading[tuple[Device, ...]],
    rows: tuple[SmiDevice, ...],
) -> tuple[Device, ...]:
    """NVIDIA devices, those that NVML lists first; then the accelerators of other makers."""
    found = [f for f in functions if f.vendor]
    ours = [f for f in found if f.vendor == "nvidia"]
    known = _addressed(list(listed.value or ()), ours)
    claimed = {device.pci.value for device in known}
    hidden = [f for f in ours if f.address not in claimed]
    indexes = [d.index for d in known if d.index is not None and not _parent(d)]
    first = max(indexes, default=-1) + 1
    by_address = {f.address: f for f in ours}
    devices = [_with_pci(host, d, by_address.get(d.pci.value or "")) for d in known]
    devices += [_unlisted(host, f, first + n, listed) for n, f in enumerate(hidden)]
    named = [_with_row(device, rows) for device in devices]
    return (*named, *_others([f for f in found if f.vendor != "nvidia"]))


def _parent(device: Device) -> str:
    return device.mig.value.parent if device.mig.value else ""


def _addressed(listed: list[Device], ours: list[PciFunction]) -> list[Device]:
    """Give devices that NVML would not open the addresses that are left over.

    NVML counts in the order of addresses; without as many left over nothing is certain.
    """
    claimed = {device.pci.value for device in listed}
    left = [f for f in ours if f.address not in claimed and f.driver in ("nvidia", "")]
    lost = [device for device in listed if device.health.value and not device.pci.is_known]
    if len(left) != len(lost):
        return listed
    places = {d.id: seen(f.address, pci.DEVICES) for d, f in zip(lost, left)}  # noqa: B905 - Python 3.9
    return [replace(d, pci=places[d.id]) if d.id in places else d for d in listed]


def _with_pci(host: Host, device: Device, function: Optional[PciFunction]) -> Device:
    """What PCI says; the bus of a virtual machine or of WSL need not show the device."""
    if function is None:
        return device
    link = device.link
    if not link.is_known and not _parent(device):
        link = pci.read_link(host, function.address)
    return replace(
        device,
        pci_id=seen(function.id, pci.DEVICES),
        subsystem=_subsystem(function),
        pci_driver=seen(function.driver, pci.DEVICES),
        link=link,
    )


def _subsystem(function: PciFunction) -> Reading[str]:
    if not function.subsystem:
        return missing(Missing.NOT_READABLE, pci.DEVICES)
    return seen(function.subsystem, pci.DEVICES)


def _unlisted(
    host: Host, function: PciFunction, number: int, listed: Reading[tuple[Device, ...]]
) -> Device:
    """A device that is on the bus and that NVML does not list, or could not be asked about."""
    reason = listed.missing or Missing.NOT_READABLE
    unread: Reading[int] = missing(reason, listed.at if listed.missing else "NVML does not list it")
    device = _plain(function, f"gpu{number}")
    return replace(
        device,
        name=_model(host, function.address, unread.at, reason),
        memory_mib=unread,
        link=pci.read_link(host, function.address),
    )


def _model(host: Host, address: str, at: str, reason: Missing) -> Reading[str]:
    """The name that the driver gives in /proc, which needs no NVML."""
    text = host.read_text(f"/proc/driver/nvidia/gpus/{address}/information", 4096)
    match = _MODEL.search(text.value or "")
    if match is None or match[1].startswith("Unknown"):
        return missing(reason, at)
    return seen(match[1].strip(), text.at)


def _plain(function: PciFunction, name: str) -> Device:
    return Device(
        id=name,
        vendor=function.vendor,
        pci=seen(function.address, pci.DEVICES),
        pci_id=seen(function.id, pci.DEVICES),
        subsystem=_subsystem(function),
        pci_driver=seen(function.driver, pci.DEVICES),
    )


def _with_row(device: Device, rows: tuple[SmiDevice, ...]) -> Device:
    """Name and memory of nvidia-smi where NVML gave none."""
    row = next((r for r in rows if r.pci is not None and r.pci == device.pci.value), None)
    if row is None or _parent(device):
        return device
    at = "nvidia-smi --query-gpu"
    name, memory = device.name, device.memory_mib
    if not name.is_known and row.name:
        name = seen(row.name, at)
    if not memory.is_known and row.memory_mib is not None:
        memory = seen(row.memory_mib, at)
    return replace(device, name=name, memory_mib=memory)


def _others(functions: list[PciFunction]) -> list[Device]:
    counts = dict.fromkeys(_PREFIXES, 0)
    devices = []
    for function in functions:
        number = counts[function.vendor]
        devices.append(_plain(function, f"{_PREFIXES[function.vendor]}{number}"))
        counts[function.vendor] += 1
    return devices
