"""`lspci -nn`, also with `-k` or `-D`: accelerators on the bus, and NVSwitches."""

from __future__ import annotations

import re
from dataclasses import dataclass

from doctor.facts import UNSTATED, Device, Facts, NvidiaFacts, seen
from doctor.probes.pci import PciFunction
from doctor.probes.tool_text import LIMIT, reading

AT = "lspci -nn"
_FUNCTION = re.compile(
    r"^((?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]) ([^\n\[]{1,60})\[([0-9a-f]{4})\]: "
    r"([^\n]{1,200}) \[([0-9a-f]{4}:[0-9a-f]{4})\]",
    re.MULTILINE,
)
# Without -nn the product stands in brackets: "NVIDIA Corporation GA102 [GeForce RTX 3090]".
_NAMED = re.compile(
    r"^((?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]) (?:VGA compatible|3D|Display) "
    r"controller: (NVIDIA Corporation|Advanced Micro Devices, Inc\. \[AMD/ATI\]) "
    r"[^\n\[]{0,80}\[([^\n\]]{3,80})\](?! ?\[)(?: \(rev \w{1,4}\))?[ \t]*$",
    re.MULTILINE,
)
_SUBSYSTEM = re.compile(r"^\tSubsystem: [^\n]{0,200}\[([0-9a-f]{4}:[0-9a-f]{4})\]", re.MULTILINE)
_DRIVER = re.compile(r"^\tKernel driver in use: ([\w-]{1,40})", re.MULTILINE)
_PREFIX = {"nvidia": "gpu", "amd": "gpu", "intel": "gpu", "ascend": "npu"}


def looks_like(text: str) -> bool:
    """Tell by a line with class and ids in brackets."""
    numbered = "]: " in text and _FUNCTION.search(text) is not None
    return numbered or _NAMED.search(text) is not None


@dataclass(frozen=True)
class _Listed:
    """A function of the bus, and the words that lspci has for it."""

    function: PciFunction
    words: str
    driver_told: bool


def parse(text: str) -> Facts:
    """One device for each accelerator, in the order of the bus."""
    listed = _functions(text[:LIMIT])
    switches = sum(item.function.is_nvswitch for item in listed)
    devices: list[Device] = []
    for item in listed:
        if item.function.vendor:
            devices.append(_device(item, devices))
    devices = devices or _named(text[:LIMIT])
    whole = "Host bridge" in text or "PCI bridge" in text
    return Facts(
        nvidia=NvidiaFacts(nvswitch=seen(switches, AT) if switches or whole else UNSTATED),
        devices=seen(tuple(devices), AT, partial=not whole) if devices or whole else UNSTATED,
    )


def _named(text: str) -> list[Device]:
    """Accelerators by the names that lspci prints where it was not asked for numbers."""
    rows = list(_NAMED.finditer(text))[:256]
    return [
        Device(
            id=f"gpu{number}",
            vendor="nvidia" if row[2].startswith("NVIDIA") else "amd",
            index=number,
            pci=seen(row[1] if row[1].count(":") == 2 else f"0000:{row[1]}", "lspci"),
            name=seen(row[3].partition(" / ")[0], "lspci"),
        )
        for number, row in enumerate(rows)
    ]


def _functions(text: str) -> list[_Listed]:
    matches = list(_FUNCTION.finditer(text))[:2048]
    ends = [match.start() for match in matches[1:]] + [len(text)]
    return [
        _listed(match, text[match.end() : end]) for match, end in zip(matches, ends, strict=False)
    ]


def _listed(match: re.Match[str], details: str) -> _Listed:
    address = match[1] if match[1].count(":") == 2 else f"0000:{match[1]}"
    subsystem, driver = _SUBSYSTEM.search(details[:4096]), _DRIVER.search(details[:4096])
    function = PciFunction(
        address=address,
        id=match[5],
        subsystem=subsystem[1] if subsystem else "",
        code=int(match[3], 16),
        driver=driver[1] if driver else "",
    )
    return _Listed(function, match[4], "Subsystem:" in details or driver is not None)


def _device(item: _Listed, before: list[Device]) -> Device:
    function = item.function
    prefix = _PREFIX.get(function.vendor, function.vendor)
    number = sum(device.id.startswith(prefix) for device in before)
    return Device(
        id=f"{prefix}{number}",
        vendor=function.vendor,
        index=number,
        pci=seen(function.address, AT),
        pci_id=seen(function.id, AT),
        subsystem=reading(function.subsystem or None, AT),
        # With -k a function without a driver has no such line: that is seen, not unknown.
        pci_driver=seen(function.driver, AT) if item.driver_told else UNSTATED,
    )
