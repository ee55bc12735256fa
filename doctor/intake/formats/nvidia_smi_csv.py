"""`nvidia-smi --query-gpu=... --format=csv`, with its header line."""

from __future__ import annotations

import re

from doctor.facts import UNSTATED, ComputeCapability, Device, Facts, Link, Mig, NvidiaFacts, seen
from doctor.intake.formats import nvidia_values
from doctor.probes.tool_text import integer, lines, reading, value_or_none, version_or_none

AT = "nvidia-smi --query-gpu"
_FIELD = r"[a-z][a-z0-9_.]{0,50}(?: \[[A-Za-z%]{1,4}\])?"
_HEADER = re.compile(rf"^{_FIELD}(?:, {_FIELD}){{0,60}}$", re.MULTILINE)
# A header of words alone is only one if a field of the tool is among them.
TELLING = frozenset(
    {
        "compute_cap",
        "driver_version",
        "gpu_name",
        "memory.free",
        "memory.total",
        "memory.used",
        "mig.mode.current",
        "pci.bus_id",
        "pcie.link.gen.current",
        "pstate",
        "utilization.gpu",
        "uuid",
    }
)


def looks_like(text: str) -> bool:
    """Tell by a header line of known fields."""
    return _header(text) is not None


def _header(text: str) -> re.Match[str] | None:
    if not any(name in text for name in TELLING):
        return None
    found = (m for m in _HEADER.finditer(text) if not TELLING.isdisjoint(_names(m[0])))
    return next(found, None)


def _names(header: str) -> list[str]:
    return [re.sub(r" \[.*", "", name).removeprefix("gpu_") for name in header.split(", ")]


def parse(text: str) -> Facts:
    """The driver and one device a row, as far as the rows go below the header."""
    header = _header(text)
    if header is None:
        return Facts()
    names = _names(header[0])
    rows: list[dict[str, str]] = []
    for line in lines(text[header.end() + 1 :]):
        cells = line.split(", ")
        if len(cells) != len(names):
            break
        rows.append(dict(zip(names, cells, strict=True)))
    driver = next((row["driver_version"] for row in rows if "driver_version" in row), None)
    devices = tuple(_device(i, row) for i, row in enumerate(rows[:256]))
    return Facts(
        nvidia=NvidiaFacts(driver=reading(version_or_none(driver), AT)),
        devices=seen(devices, AT) if devices else UNSTATED,
    )


def _device(position: int, row: dict[str, str]) -> Device:
    index = integer(row.get("index"))
    number = position if index is None else index
    mig = nvidia_values.enabled(row.get("mig.mode.current"))
    return Device(
        id=f"gpu{number}",
        vendor="nvidia",
        index=number,
        pci=reading(nvidia_values.pci_address(row.get("pci.bus_id", row.get("bus_id"))), AT),
        pci_id=reading(nvidia_values.pci_pair(row.get("pci.device_id")), AT),
        subsystem=reading(nvidia_values.pci_pair(row.get("pci.sub_device_id")), AT),
        name=reading(value_or_none(row.get("name")), AT),
        compute_capability=reading(_capability(row.get("compute_cap")), AT),
        memory_mib=reading(integer(row.get("memory.total")), AT),
        memory_free_mib=reading(integer(row.get("memory.free")), AT),
        mig=reading(None if mig is None else Mig(enabled=mig), AT),
        link=reading(_link(row), AT),
        compute_mode=reading(nvidia_values.compute_mode(row.get("compute_mode")), AT),
        uuid=reading(value_or_none(row.get("uuid")), AT),
    )


def _capability(text: str | None) -> ComputeCapability | None:
    try:
        return ComputeCapability.parse(text or "")
    except ValueError:
        return None


def _link(row: dict[str, str]) -> Link | None:
    link = Link(
        width=integer(row.get("pcie.link.width.current")),
        width_max=integer(row.get("pcie.link.width.max")),
        gen=integer(row.get("pcie.link.gen.current")),
        gen_max=integer(row.get("pcie.link.gen.max")),
    )
    return link if link != Link() else None
