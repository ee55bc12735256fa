"""Check every row of a matrix: sources, versions, ranges, uniqueness, contradictions.

Each check yields faults as text that names the row; none of them raises.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any

from doctor.errors import MatrixError
from doctor.facts import CodeTarget, ComputeCapability, Specifier, Version
from doctor.matrix.catalogue import CauseDomain
from doctor.matrix.domains import IDENTITY, identity
from doctor.matrix.model import EngineDomain, Gpu, GpuDomain, Release, Row
from doctor.matrix.query import Matrix
from doctor.matrix.verify_claims import claim_faults

_DAY = re.compile(r"\d{4}-\d\d-\d\d")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_PCI = re.compile(r"[0-9a-f]{4}")
_OTHER_TARGET = re.compile(r"gfx[0-9a-f]{3,4}[a-z0-9:+-]*|[a-z0-9_-]+")


def verify(matrix: Matrix) -> tuple[str, ...]:
    """All faults of all domains, each naming its row; empty for a sound matrix."""
    names = (*matrix.other_names, *matrix.engine_names)
    return tuple(chain.from_iterable(_domain_faults(matrix, name) for name in names))


def _domain_faults(matrix: Matrix, name: str) -> Iterator[str]:
    try:
        domain = matrix.domain(name)
    except MatrixError as fault:
        yield str(fault)
        return
    yield from (f"{name}: {fault}" for fault in _faults_of(domain))


def _faults_of(domain: Any) -> Iterator[str]:
    if isinstance(domain, CauseDomain):
        return
    if not _DAY.fullmatch(domain.as_of):
        yield f"as_of {domain.as_of!r} is not a day"
    for field in domain.__struct_fields__:
        if field in IDENTITY:
            yield from _list_faults(field, getattr(domain, field))
    if isinstance(domain, EngineDomain):
        yield from chain.from_iterable(release_faults(row) for row in domain.releases)
        yield from claim_faults(domain)
    if isinstance(domain, GpuDomain):
        yield from gpu_faults(domain.gpus)


def _list_faults(field: str, rows: Iterable[Any]) -> Iterator[str]:
    seen: set[tuple[Any, ...]] = set()
    for row in rows:
        name = identity(field, row)
        label = f"{field} {' '.join(map(str, name))}"
        if name in seen:
            yield f"{label} comes twice"
        seen.add(name)
        yield from (f"{label}: {fault}" for fault in _row_faults(row))


def _row_faults(row: Row) -> Iterator[str]:
    if not any(source.strip() for source in row.source):
        yield "no source"
    if row.checked and not _DAY.fullmatch(row.checked):
        yield f"checked {row.checked!r} is not a day"
    if row.override:
        yield "override belongs into an overlay"


def release_faults(row: Release) -> Iterator[str]:
    """Faults of one release: versions, specifiers, targets and hashes that do not parse."""
    label = f"release {row.version}"
    for field in ("version", "cuda", "min_glibc"):
        text = getattr(row, field)
        if text is not None and not _is_exact(text):
            yield f"{label}: {field} {text!r} is not a version"
    for name, spec in (("requires_python", row.requires_python), *row.pins.items()):
        if Specifier.parse(spec) is None:
            yield f"{label}: {name} {spec!r} is not a specifier"
    if row.min_capability is not None and not _is_capability(row.min_capability):
        yield f"{label}: min_capability {row.min_capability!r}"
    named = chain(*row.targets.values(), *(v.targets for v in row.variants))
    yield from (f"{label}: target {t!r}" for t in named if not _is_target(t))
    yield from (f"{label}: sha256 of {f.file}" for f in row.files if not _is_sha256(f.sha256))


def gpu_faults(gpus: Iterable[Gpu]) -> Iterator[str]:
    """Faults of the products: ids that do not parse, or that two of them claim."""
    owners: dict[tuple[str, str], str] = {}
    for gpu in gpus:
        if gpu.capability is not None and not _is_capability(gpu.capability):
            yield f"{gpu.key}: capability {gpu.capability!r}"
        if gpu.first_branch and gpu.last_branch and gpu.first_branch > gpu.last_branch:
            yield f"{gpu.key}: first_branch is above last_branch"
        for device in gpu.devices:
            if not _PCI.fullmatch(device):
                yield f"{gpu.key}: device id {device!r}"
            for subsystem in gpu.subsystems or ("",):
                owner = owners.setdefault((device, subsystem), gpu.key)
                if owner != gpu.key:
                    yield f"{gpu.key}: {device} {subsystem} also belongs to {owner}"


def _is_exact(text: str) -> bool:
    version = Version.maybe(text)
    return version is not None and version.is_exact


def _is_capability(text: str) -> bool:
    try:
        ComputeCapability.parse(text)
    except ValueError:
        return False
    return True


def _is_target(text: str) -> bool:
    """CUDA targets in the form of `CodeTarget`; other vendors' names as they are."""
    if not text.startswith(("sm_", "compute_")):
        return bool(_OTHER_TARGET.fullmatch(text))
    try:
        return str(CodeTarget.parse(text)) == text
    except ValueError:
        return False


def _is_sha256(text: str) -> bool:
    return not text or bool(_SHA256.fullmatch(text))
