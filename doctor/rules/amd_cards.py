"""The gfx target of an AMD device: as read, else what its PCI id or product name tells."""

from __future__ import annotations

import re
from dataclasses import dataclass

from doctor.facts import Device, Missing, MissingFact, Scope, Version
from doctor.findings import Evidence
from doctor.matrix import Matrix
from doctor.matrix.amd_products import of_pci, of_product
from doctor.rules.engine import Case
from doctor.rules.image_facts import known_image
from doctor.rules.settings import Setting, covering, holds
from doctor.rules.software import Software, software, torch_version

_GFX = re.compile(r"gfx[0-9]{2,4}[a-c]?")


@dataclass(frozen=True)
class Held:
    """Targets for which something here holds code, and how that is known."""

    what: str = "library"
    targets: frozenset[str] = frozenset()
    sources: tuple[str, ...] = ()
    extrapolated: str = ""
    of_torch: bool = False
    is_any: bool = False  # what any wheel holds that it may be


def held(case: Case, matrix: Matrix, found: Software, uses_torch: bool) -> Held:
    """Targets of the code here: as read, else by the name of the build, its image or torch's wheel.

    Empty if none of them tells.
    """
    scope = case.scope
    read = {g.partition(":")[0] for b in scope.binaries.value or () for g in b.gfx}
    read = read or targets_in(scope.variants.get(found.name, ""))
    if read:
        return Held(targets=frozenset(read))
    image = known_image(scope, matrix)
    listed = targets_in(image.extra.get("gfx", "")) if image is not None else set()
    if image is not None and listed:
        return Held(f"image {image.repository}", frozenset(listed), image.source)
    return _of_torch(case, matrix) if uses_torch else Held()


def _of_torch(case: Case, matrix: Matrix) -> Held:
    """Targets that torch's own wheels for a ROCm release are built for."""
    torch = torch_version(case)
    if torch is not None and torch.is_prerelease:
        return Held()
    if torch is None or not torch.local:
        return _of_any_torch(case, matrix, torch)
    if not torch.local.startswith("rocm"):
        return Held()
    beside = software(matrix, "torch", torch, case.scope.torch.at)
    setting = Setting(Scope(id="", kind=""), {}, variant=torch.local)
    for match in covering(matrix, beside, "gfx", "wheel"):
        if holds(match.claim, setting):
            listed = frozenset(match.claim.value.split("|"))
            words = f"wheel of torch {torch}"
            return Held(words, listed, match.claim.source, match.extrapolated, of_torch=True)
    return Held()


def _of_any_torch(case: Case, matrix: Matrix, torch: Version | None) -> Held:
    """Targets of all wheels that it may be, where its build is not told: for that ROCm, if any."""
    listed = [match.claim for match in matrix.claims("torch", "gfx", torch, "wheel")]
    rocm = case.facts.rocm.version.value
    line = ".".join(map(str, rocm.release[:2])) if rocm is not None else ""
    setting = Setting(Scope(id="", kind=""), {}, variant=f"rocm{line}")
    rows = [row for row in listed if line and holds(row, setting)] or listed
    targets = frozenset(target for row in rows for target in row.value.split("|"))
    sources = tuple(dict.fromkeys(source for row in rows for source in row.source))[:3]
    return Held("wheel of torch that is known", targets, sources, of_torch=True, is_any=True)


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
    own = covering(matrix, found, "gfx", "supported")
    if own:
        claim = own[0].claim
        return dict.fromkeys(claim.value.split("|"), ("supported", claim.source))
    rows = (m.claim for m in matrix.claims("rocm", "gfx"))
    return {
        row.key: (row.value, row.source) for row in rows if row.data.get("engine") == found.name
    }


# The libraries that a wheel of torch for CUDA requires beside it.
_OF_CUDA_TORCH = re.compile(r"nvidia-(?:cublas|cudnn|cuda-runtime|nccl|cusparse)-cu1\d")


def has_cuda_libraries(case: Case) -> bool:
    """Libraries that came with a torch for CUDA are among the packages."""
    return any(_OF_CUDA_TORCH.fullmatch(p.name) for p in case.scope.packages.value or ())
