"""Values as NVIDIA's tools print them, under the names that the facts use."""

from __future__ import annotations

import re

from doctor.facts import DeviceHealth
from doctor.probes.tool_text import integer

_BUS = re.compile(r"(?:[0-9a-f]{4})?([0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-9a-f])", re.IGNORECASE)
_IDS = re.compile(r"(?:0x)?([0-9a-f]{4})([0-9a-f]{4})", re.IGNORECASE)
_COMPUTE_MODES = {
    "default": "default",
    "e. process": "exclusive-process",
    "exclusive_process": "exclusive-process",
    "e. thread": "exclusive-thread",
    "exclusive_thread": "exclusive-thread",
    "prohibited": "prohibited",
}
# Reasons that slow a device down, by the words of the tool.
_THROTTLE = {
    "sw power cap": "power-cap",
    "hw slowdown": "hw-slowdown",
    "sw thermal slowdown": "sw-thermal",
    "hw thermal slowdown": "hw-thermal",
    "hw power brake slowdown": "hw-power-brake",
}


def pci_address(text: str | None) -> str | None:
    """A bus id as sysfs writes it: "00000000:19:00.0" is 0000:19:00.0."""
    match = _BUS.fullmatch((text or "").strip())
    return match[1].lower() if match else None


def pci_pair(text: str | None) -> str | None:
    """Vendor and device of "0x233010DE", of which the vendor stands last: 10de:2330."""
    match = _IDS.fullmatch((text or "").strip())
    return f"{match[2]}:{match[1]}".lower() if match else None


def compute_mode(text: str | None) -> str | None:
    """A compute mode, under the name that NVML's answers get."""
    return _COMPUTE_MODES.get((text or "").strip().lower())


def enabled(text: str | None) -> bool | None:
    """Whether "Enabled" or "Disabled" stands there; None for anything else."""
    return {"enabled": True, "disabled": False}.get((text or "").strip().lower())


def health(
    uncorrected: tuple[str | None, ...],
    pending: str | None,
    failed: str | None,
    reasons: dict[str, str],
    temperature: str | None,
) -> DeviceHealth:
    """Health from fields; several counters of uncorrected errors add up."""
    counts = [n for n in map(integer, uncorrected) if n is not None]
    active = (name for words, name in _THROTTLE.items() if reasons.get(words) == "Active")
    return DeviceHealth(
        ecc_uncorrected=sum(counts) if counts else None,
        remap_pending=_yes(pending),
        remap_failed=_yes(failed),
        throttle=tuple(active),
        temperature_c=integer(temperature),
    )


def _yes(text: str | None) -> bool | None:
    return {"yes": True, "no": False}.get((text or "").strip().lower())
