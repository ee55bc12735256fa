"""`npu-smi info -l` and `npu-smi info -t board`, with and without `-c`."""

from __future__ import annotations

import re
from typing import Optional

from doctor.facts import UNSTATED, AscendFacts, Device, Facts, Reading, seen
from doctor.probes.stated_version import version
from doctor.probes.tool_text import fields, integer, reading, value_or_none

AT = "npu-smi info -t board"
LIST_AT = "npu-smi info -l"
_NPU = re.compile(r"^[ \t]{0,40}NPU ID[ \t]{1,40}:[ \t]{0,9}(\d{1,6})[ \t]*$", re.MULTILINE)
_COUNT = re.compile(r"^[ \t]{0,40}Chip Count[ \t]{1,40}:[ \t]{0,9}(\d{1,3})[ \t]*$", re.MULTILINE)


def looks_like(text: str) -> bool:
    """Tell by the keys of a board or of the list."""
    return ("NPU ID" in text and _NPU.search(text) is not None) and (
        "Chip Count" in text or "Chip Name" in text or "Chip Version" in text
    )


def parse(text: str) -> Facts:
    """A board is one device with its firmware; a list says how many there are."""
    if "Total Count" in text:
        return Facts(devices=_listed(text))
    stated = fields(text)
    number = integer(stated.get("NPU ID")) or 0
    chip = integer(stated.get("Chip ID")) or 0
    firmware = version(value_or_none(stated.get("Firmware Version")) or "", width=1)
    driver = version(value_or_none(stated.get("Software Version")) or "", width=1)
    # A board without chips tells of no device, and which logic id it has is not said.
    device = _device(stated, f"npu{number}" if not chip else f"npu{number}.{chip}")
    return Facts(
        ascend=AscendFacts(
            driver=reading(driver, AT),
            firmware=reading(firmware, AT),
            soc=device.soc,
            compatibility=reading(value_or_none(stated.get("Compatibility")), AT),
        ),
        devices=seen((device,), AT, partial=True),
    )


def first_id(text: str) -> Optional[int]:
    """The first NPU of `npu-smi info -l`; ids may have gaps and need not begin with 0."""
    match = _NPU.search(text)
    return int(match[1]) if match else None


def _device(stated: dict[str, str], device_id: str) -> Device:
    chip = value_or_none(stated.get("Chip Name"))
    bus = value_or_none(stated.get("PCIe Bus Info"))
    return Device(
        id=device_id,
        vendor="ascend",
        index=integer(stated.get("NPU ID")),
        pci=reading(bus.lower() if bus else None, AT),
        pci_id=reading(_pair(stated, "PCI Vendor ID", "PCI Device ID"), AT),
        subsystem=reading(_pair(stated, "Subsystem Vendor ID", "Subsystem Device ID"), AT),
        name=reading(chip, AT),
        soc=reading(_soc(stated), AT),
    )


def _pair(stated: dict[str, str], vendor: str, device: str) -> Optional[str]:
    numbers = [stated.get(key, "").lower().removeprefix("0x") for key in (vendor, device)]
    whole = all(re.fullmatch(r"[0-9a-f]{4}", number) for number in numbers)
    return ":".join(numbers) if whole else None


def _soc(stated: dict[str, str]) -> Optional[str]:
    """Join the names as the engines' own builds do.

    With a chip type the SoC is type and name; without one it is name and NPU name.
    Source: vllm-ascend setup.py (chip detection).
    """
    name, kind = stated.get("Chip Name", ""), stated.get("Chip Type", "")
    npu = value_or_none(stated.get("NPU Name"))
    if not name:
        return None
    if kind:
        return f"{kind}{name}"
    return f"{name}_{npu}" if npu else None


def _listed(text: str) -> Reading[tuple[Device, ...]]:
    """One device a chip, in the order listed."""
    chips = sum(int(count) for count in _COUNT.findall(text)[:256])
    found = tuple(Device(id=f"npu{i}", vendor="ascend", index=i) for i in range(min(chips, 1024)))
    return seen(found, LIST_AT) if found else UNSTATED
