"""The gfx target of an AMD device: as read, else what its PCI id or product name tells."""

from __future__ import annotations

import re

from doctor.facts import Device, Missing, MissingFact
from doctor.findings import Evidence
from doctor.matrix import Matrix
from doctor.matrix.amd_products import of_pci, of_product
from doctor.rules.settings import covering
from doctor.rules.software import Software

_GFX = re.compile(r"gfx[0-9]{2,4}[a-c]?")


def targets_in(text: str) -> set[str]:
    """The gfx names that a text holds."""
    return set(_GFX.findall(text.lower()))


def target(device: Device, matrix: Matrix) -> Evidence:
    """The gfx name without feature flags ("gfx942"); its place says what told it.

    Raises `MissingFact` if it was not read and neither PCI id nor product name tells one.
    """
    read = device.gfx.value
    if read is not None:
        return Evidence(read.partition(":")[0], device.gfx.at)
    of_id = of_pci(matrix, device.pci_id.value or "")
    if of_id is not None:
        return Evidence(of_id, f"PCI id {device.pci_id.value}, {device.pci_id.at}")
    named = of_product(matrix, device.name.value or "")
    if named is None:
        reason = device.gfx.missing or Missing.NOT_STATED
        raise MissingFact(f"devices.{device.id}.gfx", reason, device.gfx.at)
    return Evidence(named, f"{device.name.value}, {device.name.at}")


def override(value: str) -> str:
    """The target that "9.4.2" stands for: the major in decimal, minor and stepping in hex."""
    parts = [int(part[:9]) for part in value.split(".") if part.isdecimal()]
    return f"gfx{parts[0]}" + "".join(f"{part:x}" for part in parts[1:]) if parts else value


def listed(matrix: Matrix, found: Software) -> dict[str, tuple[str, tuple[str, ...]]]:
    """Targets that an engine's project speaks of: what it says of each, and where.

    A list of its own, which may be bound to versions, counts before the general ones.
    """
    own = covering(matrix, found, "gfx")
    if own:
        claim = own[0].claim
        return dict.fromkeys(claim.value.split("|"), ("supported", claim.source))
    rows = (m.claim for m in matrix.claims("rocm", "gfx"))
    return {
        row.key: (row.value, row.source) for row in rows if row.data.get("engine") == found.name
    }
