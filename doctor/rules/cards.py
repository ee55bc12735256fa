"""What the matrix knows of the cards of a case: capability, branches, module flavour, class.

A name in a report may fit several products; then only what all of them share is known.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from doctor.errors import UsageError
from doctor.facts import ComputeCapability, Device, Reading, Version, missing, seen
from doctor.facts.reading import Missing
from doctor.findings import Evidence
from doctor.matrix import Matrix
from doctor.matrix.model import Gpu
from doctor.rules.engine import Case, NotApplicable


def products(device: Device, matrix: Matrix) -> tuple[Gpu, ...]:
    """Products that the device may be; if its name fits none, those of its capability."""
    found = matrix.gpus_matching(device)
    if found or not device.compute_capability.is_known:
        return found
    text = str(device.compute_capability.value)
    return tuple(row for row in matrix.gpus.gpus if row.capability == text)


def capability(device: Device, matrix: Matrix) -> Reading[ComputeCapability]:
    """The compute capability that was read, else the one that all matching products share."""
    if device.compute_capability.is_known:
        return device.compute_capability
    found = matrix.capability_of(device)
    if found is None:
        return missing(Missing.NOT_STATED, device.name.at)
    return seen(found, f"matrix, {label(device, matrix)}")


def highest_capability(device: Device, matrix: Matrix) -> tuple[ComputeCapability, str]:
    """The compute capability and how to say it; of several products ("Pascal") their highest."""
    texts = {row.capability for row in products(device, matrix)}
    if not capability(device, matrix).is_known and texts and all(texts):
        highest = max(ComputeCapability.parse(text) for text in texts if text)
        return highest, f"at most {highest}"
    known = need_capability(device, matrix)
    return known, str(known)


def need_capability(device: Device, matrix: Matrix) -> ComputeCapability:
    """The compute capability, or `MissingFact`."""
    return capability(device, matrix).known(f"devices.{device.id}.compute_capability")


def label(device: Device, matrix: Matrix) -> str:
    """How a finding names the device: as it names itself, else as the product of its PCI id."""
    if device.name.value:
        return device.name.value
    rows = matrix.gpus_matching(device)
    if len(rows) == 1 and rows[0].names:
        return rows[0].names[0]
    return device.pci_id.value or device.id


def evidence(device: Device, matrix: Matrix) -> Evidence:
    """The device and its capability as evidence."""
    reading = capability(device, matrix)
    text = f", compute capability {reading.value}" if reading.is_known else ""
    at = device.name.at or device.pci_id.at or device.compute_capability.at
    return Evidence(f"{label(device, matrix)}{text}", at)


@dataclass(frozen=True)
class BranchSpan:
    """Driver branches that drive a card: from `first` to `last`; None where open or unknown."""

    first: int | None
    last: int | None
    sources: tuple[str, ...]

    def drives(self, branch: int) -> bool:
        """Tell whether nothing known speaks against that branch."""
        return (self.first is None or branch >= self.first) and (
            self.last is None or branch <= self.last
        )


def branch_span(device: Device, matrix: Matrix) -> BranchSpan:
    """The widest span that any product which the device may be allows.

    A driver starts every card whose chips it knows, listed by name or not: so the first
    branch is that of the oldest product of the same capability.
    """
    rows = products(device, matrix)
    kin = {row.capability for row in rows if row.capability}
    firsts = [row.first_branch for row in matrix.gpus.gpus if row.capability in kin]
    lasts = [row.last_branch for row in rows]
    return BranchSpan(
        min((b for b in firsts if b is not None), default=None),
        max((b for b in lasts if b is not None), default=None) if None not in lasts else None,
        sources(rows),
    )


def shared(device: Device, matrix: Matrix, field: str) -> str:
    """A text property that all products which the device may be share, else ""."""
    values = {getattr(row, field) for row in products(device, matrix)}
    return str(values.pop() or "") if len(values) == 1 else ""


def gpu_class(device: Device, matrix: Matrix) -> str:
    """The class of the product; of a name that fits none, the brand that NVML puts before it."""
    word = (device.name.value or "").lower().removeprefix("nvidia ").partition(" ")[0]
    return shared(device, matrix, "gpu_class") or (word if word in _BRAND_WORDS else "")


_BRAND_WORDS = ("geforce", "titan")


def sources(rows: tuple[Gpu, ...]) -> tuple[str, ...]:
    """Sources of product rows, each once, the first three of them."""
    return tuple(dict.fromkeys(source for row in rows for source in row.source))[:3]


def distinct(devices: tuple[Device, ...]) -> tuple[Device, ...]:
    """One device of each product: eight equal cards give one finding."""
    kept = {(d.name.value, d.pci_id.value, d.compute_capability.value): d for d in devices[::-1]}
    return tuple(reversed(list(kept.values())))


def is_tegra(device: Device, matrix: Matrix) -> bool:
    """Tell whether the device is known to be the GPU of a Jetson module, of whichever one."""
    reading = capability(device, matrix)
    if reading.is_known:
        return reading.value in matrix.tegra
    own = {row.gpu_class for row in matrix.gpus_matching(device)}
    return own == {"jetson"}


def driver_to_judge(case: Case) -> Reading[Version]:
    """The loaded driver; if it was seen that none is, the one that is installed."""
    nvidia = case.facts.nvidia
    return nvidia.module_on_disk if nvidia.driver.is_absent else nvidia.driver


def desktop_cards(case: Case, matrix: Matrix) -> tuple[Device, ...]:
    """NVIDIA devices that an ordinary Linux driver drives.

    Raises `NotApplicable` on WSL and Jetson, whose drivers follow other rules, and
    where there is no NVIDIA device; `MissingFact` if devices are unknown.
    """
    platform = case.facts.host.platform.value
    if platform in ("wsl2", "jetson"):
        raise NotApplicable(f"the driver of {platform} follows other rules")
    found = tuple(d for d in case.need_vendor("nvidia") if not is_tegra(d, matrix))
    if not found:
        raise NotApplicable("the GPU belongs to a Jetson module")
    return found


def need_known(devices: Iterable[Device], matrix: Matrix) -> None:
    """Raise UsageError for a card of which nothing can be said: no plan may rest on a guess."""
    for device in devices:
        if device.vendor == "nvidia" and not capability(device, matrix).is_known:
            raise _unknown(device, matrix)
        is_chip = device.vendor == "ascend"
        name, soc = device.name.value or "", device.soc.value or ""
        if is_chip and matrix.npu(name, soc, device.pci_id.value or "") is None:
            chips = ", ".join(row.key for row in matrix.npus)
            raise UsageError(f"no NPU called {(soc or name)[:60]!r} is known", f"known: {chips}")


def _unknown(device: Device, matrix: Matrix) -> UsageError:
    name = device.name.value or device.pci_id.value or device.id
    found = matrix.gpus_matching(device)
    if found:
        several = ", ".join(row.names[0] if row.names else row.key for row in found[:4])
        return UsageError(f"{name[:60]!r} may be {several}, which differ", "write which one")
    near = matrix.gpu_names_near(name)
    hint = f"did you mean {' or '.join(near)}? " if near else ""
    return UsageError(
        f"no GPU called {name[:60]!r} is known",
        f"{hint}Write it as nvidia-smi does, or add its compute capability: cc=8.9",
    )


def was_not_read(matrix: Matrix, driver: Version, first: int) -> bool:
    """Tell whether no list of a branch at or above the driver's and below `first` was read."""
    read = {row.first_branch for row in matrix.gpus.gpus if row.first_branch}
    below = max((branch for branch in read if branch < first), default=0)
    return driver.major is not None and driver.major > below
