"""What the matrix knows of the Ascend chips of a case. One name may fit several chips."""

from __future__ import annotations

import re

from doctor.facts import Device
from doctor.matrix import Matrix
from doctor.matrix.catalogue import Npu, is_of
from doctor.rules.engine import Case

_CHIP = re.compile(
    r"(?<![a-z0-9_])(310[BP]?\d?|910(?: ?(?:Pro|Premium) ?[AB]|[A-C]\d?C?(?:-1)?|_\d{4})?|950\w*)",
    re.IGNORECASE,
)
_NEAR = 0.05  # of a memory stated by its nominal size


def chips(device: Device, matrix: Matrix) -> tuple[Npu, ...]:
    """Rows that the device may be, by SoC name, npu-smi name or PCI id; of several by memory."""
    for text in _texts(device):
        rows = tuple(row for row in matrix.npus if text in _known(row))
        if rows:
            return tuple(row for row in rows if _has_memory(row, device)) or rows
    named = device.name.value or ""
    rows = tuple(row for row in matrix.npus if named and is_of(row, named))
    if rows:
        return rows
    pci_id = (device.pci_id.value or "").lower()
    return tuple(row for row in matrix.npus if pci_id and pci_id in row.pci)


def _has_memory(row: Npu, device: Device) -> bool:
    size = device.memory_mib.value
    return size is None or any(abs(known - size) < _NEAR * size for known in row.memory_mib)


def _texts(device: Device) -> list[str]:
    stated = [device.soc.value or "", device.name.value or ""]
    named = [match[1] for text in stated for match in [_CHIP.search(text)] if match]
    return [_plain(text) for text in (*stated, *named) if text]


def _known(row: Npu) -> set[str]:
    return {_plain(text) for text in (row.key, *row.names, *row.socs, *row.products)}


def _plain(text: str) -> str:
    return text.lower().removeprefix("ascend").strip(" _-").replace(" pro", "pro")


def words(device: Device, matrix: Matrix) -> frozenset[str]:
    """Words that a claim may use for the device: key and generation that all its chips share.

    Its own SoC name is one of them, those of other models of the chip are not.
    """
    rows = chips(device, matrix)
    sets = [frozenset({row.key, row.generation}) for row in rows]
    shared = frozenset.intersection(*sets) if sets else frozenset[str]()
    soc = (device.soc.value or "").removeprefix("Ascend")
    return shared | {soc} if soc and rows else shared


def generation(device: Device, matrix: Matrix) -> str:
    """A2, A3, A5, 310P ...; "" if unknown or if several fit."""
    found = {row.generation for row in chips(device, matrix)}
    return found.pop() if len(found) == 1 else ""


def label(device: Device) -> str:
    """How a finding names the chip."""
    return device.soc.value or device.name.value or device.id


def ascend_devices(case: Case) -> tuple[Device, ...]:
    """Ascend devices; `NotApplicable` if there are none, `MissingFact` if unknown."""
    return case.need_vendor("ascend")
