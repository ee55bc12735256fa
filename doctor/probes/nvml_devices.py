"""One device of the NVML document, with its MIG instances, as facts. Pure."""

from __future__ import annotations

from typing import Any, Optional

from doctor.facts import Device, DeviceHealth, Link, Mig, Missing, Reading, missing, seen
from doctor.facts.accelerators import DeviceProcess
from doctor.probes.nvml_values import (
    capability,
    error_code,
    mebibytes,
    natural,
    pci_address,
    pci_pair,
    reading,
    records,
    refusal,
    value,
    words,
)

_COMPUTE_MODES = ("default", "exclusive-thread", "prohibited", "exclusive-process")
_FABRIC_STATES = ("not-supported", "not-started", "in-progress", "completed")
_VIRTUAL = 2

# Bits of nvmlClocksEventReasons that slow a device down; idle and chosen clocks do not.
_THROTTLE = {
    0x04: "power-cap",
    0x08: "hw-slowdown",
    0x20: "sw-thermal",
    0x40: "hw-thermal",
    0x80: "hw-power-brake",
    0x200: "board-limit",
    0x400: "reliability",
}


def parse_device(raw: dict[str, Any]) -> tuple[Device, ...]:
    """The device and, in MIG mode, its instances; a device that NVML would not open is kept."""
    index = natural(raw.get("index")) or 0
    at = f"NVML device {index}"
    code = error_code(raw)
    if code is not None:
        gone = refusal(code, at)
        health = seen(DeviceHealth(nvml_error=code), at)
        return (Device(f"gpu{index}", "nvidia", index, name=gone, memory_mib=gone, health=health),)
    device = _device(raw, index, at)
    parts = enumerate(records(raw.get("instances")))
    return (device, *(_instance(device, number, part, at) for number, part in parts))


def _device(raw: dict[str, Any], index: int, at: str) -> Device:
    return Device(
        id=f"gpu{index}",
        vendor="nvidia",
        index=index,
        pci=reading(raw.get("pci"), at, lambda pci: pci_address(pci["bus"])),
        pci_id=reading(raw.get("pci"), at, lambda pci: pci_pair(pci["id"])),
        subsystem=reading(raw.get("pci"), at, lambda pci: pci_pair(pci["subsystem"])),
        name=reading(raw.get("name"), at, words),
        uuid=reading(raw.get("uuid"), at, words),
        brand=reading(raw.get("brand"), at, natural),
        compute_capability=reading(raw.get("capability"), at, capability),
        memory_mib=_memory(raw, "total", at),
        memory_free_mib=_memory(raw, "free", at),
        mig=reading(raw.get("mig"), at, lambda modes: _mig(modes, raw.get("instances"))),
        link=_link(raw, at),
        health=seen(_health(raw), at),
        processes=reading(raw.get("processes"), at, _processes),
        virtual=reading(raw.get("virtualization"), at, lambda mode: mode == _VIRTUAL),
        compute_mode=reading(raw.get("compute_mode"), at, lambda mode: _COMPUTE_MODES[mode]),
        fabric=reading(raw.get("fabric"), at, _fabric),
        gsp=reading(raw.get("gsp"), at, lambda modes: bool(modes[0])),
    )


def _instance(device: Device, number: int, raw: dict[str, Any], at: str) -> Device:
    at = f"{at} instance {number}"
    return Device(
        id=f"{device.id}/mig{number}",
        vendor="nvidia",
        index=natural(raw.get("number")),
        pci=device.pci,
        pci_id=device.pci_id,
        subsystem=device.subsystem,
        pci_driver=device.pci_driver,
        name=reading(raw.get("name"), at, words),
        uuid=reading(raw.get("uuid"), at, words),
        brand=device.brand,
        compute_capability=device.compute_capability,
        memory_mib=_memory(raw, "total", at),
        memory_free_mib=_memory(raw, "free", at),
        mig=seen(Mig(enabled=True, parent=device.id, profile=_profile(raw)), at),
        processes=reading(raw.get("processes"), at, _processes),
        virtual=device.virtual,
    )


def _memory(raw: dict[str, Any], part: str, at: str) -> Reading[int]:
    """Memory in MiB; unknown where NVML does not tell it, never taken from the host's."""
    at = f"{at} memory"
    code = error_code(raw.get("memory"))
    if code is not None:
        return missing(Missing.NOT_READABLE, f"{at}: error {code}")
    found = reading(raw.get("memory"), at, lambda memory: mebibytes(memory[part]))
    total = value(raw.get("memory"), lambda memory: mebibytes(memory["total"]))
    return found if total else missing(Missing.NOT_READABLE, at)


def _mig(modes: Any, instances: Any) -> Mig:
    enabled = bool(modes[0])
    listed = len(records(instances)) if isinstance(instances, list) else None
    return Mig(enabled=enabled, instances=listed if enabled else None)


def _profile(raw: dict[str, Any]) -> str:
    """The end of the name ("1g.10gb"); older drivers leave it out, so else the slices."""
    name = value(raw.get("name"), words) or ""
    if " MIG " in name:
        return name.rpartition(" MIG ")[2]
    return value(raw.get("slices"), _slices) or ""


def _slices(slices: Any) -> str:
    gigabytes = (slices["memory_mib"] + 1023) // 1024
    compute = f"{slices['compute']}c." if slices["compute"] != slices["gpu"] else ""
    return f"{compute}{slices['gpu']}g.{gigabytes}gb"


def _link(raw: dict[str, Any], at: str) -> Reading[Link]:
    parts = [value(raw.get(key), natural) for key in ("width", "width_max", "gen", "gen_max")]
    if not any(parts):
        return reading(raw.get("width"), f"{at} link", lambda _: None)
    return seen(Link(*parts), f"{at} link")


def _health(raw: dict[str, Any]) -> DeviceHealth:
    remapped = raw.get("remapped")
    pending = value(remapped, lambda rows: bool(rows[2]))
    if pending is None:  # cards before row remapping retire whole pages
        pending = value(raw.get("retired_pending"), bool)
    return DeviceHealth(
        ecc_uncorrected=value(raw.get("ecc_uncorrected"), natural),
        remap_pending=pending,
        remap_failed=value(remapped, lambda rows: bool(rows[3])),
        throttle=value(raw.get("throttle"), _throttle) or (),
        temperature_c=value(raw.get("temperature"), natural),
        nvlinks_up=value(raw.get("nvlink"), lambda links: natural(links["active"])),
        nvlinks_down=value(raw.get("nvlink"), lambda links: natural(links["inactive"])),
    )


def _throttle(bits: int) -> tuple[str, ...]:
    return tuple(name for bit, name in _THROTTLE.items() if bits & bit)


def _processes(listed: Any) -> tuple[DeviceProcess, ...]:
    return tuple(
        DeviceProcess(process["pid"], mebibytes(process.get("memory")), process.get("name") or "")
        for process in records(listed)
        if natural(process.get("pid")) is not None
    )


def _fabric(info: Any) -> Optional[str]:
    """The fabric's state; a state that was completed with an error is "failed"."""
    state = _FABRIC_STATES[info["state"]]
    return "failed" if state == "completed" and info["status"] else state
