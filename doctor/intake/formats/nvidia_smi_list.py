"""`nvidia-smi -L`: names and UUIDs of devices and MIG instances."""

from __future__ import annotations

import re
from itertools import islice

from doctor.facts import UNSTATED, Device, Facts, Mig, Reading, seen
from doctor.intake.card_names import vendor_of
from doctor.probes.tool_text import reading

AT = "nvidia-smi -L"
_LINE = re.compile(
    r"^[ \t]{0,8}(?:GPU {1,3}(\d{1,3}): {0,3}([^\n]{1,100}?)"
    r"|MIG (\S{1,20}) {1,9}Device {1,3}(\d{1,3}):)"
    r"[ \t]*(?:\(UUID: ([\w/-]{1,80})\)|\((gfx[0-9a-f]{3,5})[^)\n]{0,40}\))?[ \t]*$",
    re.MULTILINE,
)


def looks_like(text: str) -> bool:
    """Tell by a line of a device with its UUID."""
    return "(UUID: GPU-" in text


def parse(text: str) -> Facts:
    """The devices listed."""
    found = listed_devices(text, AT)
    return Facts(devices=seen(found, AT) if found else UNSTATED)


def listed_devices(text: str, at: str) -> tuple[Device, ...]:
    """Devices of lines such as "GPU 0: NVIDIA L4 (UUID: ...)" and "GPU 1: AMD ... (gfx942)"."""
    found: dict[str, Device] = {}
    parent = ""
    for match in islice(_LINE.finditer(text), 1024):
        if match[1]:
            parent = f"gpu{int(match[1])}"
            found.setdefault(parent, _device(match, at))
        elif parent:
            instance = _instance(match, found[parent], at)
            found[instance.id] = instance
    return tuple(found.values())


def _device(match: re.Match[str], at: str) -> Device:
    name = match[2].strip()
    gfx: Reading[str] = reading(match[6], at)
    return Device(
        id=f"gpu{int(match[1])}",
        vendor="amd" if match[6] else vendor_of(name),
        index=int(match[1]),
        name=seen(name, at),
        gfx=gfx,
        uuid=reading(match[5], at),
    )


def _instance(match: re.Match[str], parent: Device, at: str) -> Device:
    return Device(
        id=f"{parent.id}/mig{int(match[4])}",
        vendor="nvidia",
        index=int(match[4]),
        name=parent.name,
        mig=seen(Mig(enabled=True, parent=parent.id, profile=match[3]), at),
        uuid=reading(match[5], at),
    )
