"""Rules about the NCCL that several devices talk through, and what their card needs of it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

from doctor.facts import Missing, MissingFact, Package, Version
from doctor.findings import Evidence, Remedy
from doctor.matrix import Matrix
from doctor.rules.engine import Case, Fault, NotApplicable, Severity, rule
from doctor.rules.model_facts import count, environment
from doctor.rules.settings import applicable, settings
from doctor.rules.software import Software, engine, shared_pin, software, torch_version

# vLLM loads the file that the first names; the loader puts the second before all others.
_NCCL_FILES = ("VLLM_NCCL_SO_PATH", "LD_PRELOAD")
_NCCL_FILE = re.compile(r"\blibnccl\.so\.(\d{1,2}\.\d{1,3}(?:\.\d{1,3})?)\b")
_NCCL = ("nvidia-nccl-cu13", "nvidia-nccl-cu12", "nvidia-nccl-cu11", "nccl")


@rule("SRV201", cause="nccl-too-old", severity=Severity.ERROR)
def nccl_below_pin(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """NCCL is older than the engine or torch was built with, and several devices are used.

    What: the installed NCCL, or the file that a variable puts before it, against the pins
        of the engine's and torch's releases.
    Why: an older NCCL lacks the card's transports or symbols; the first all-reduce fails
        or hangs.
    How to fix: install the NCCL that is pinned.
    Silent when: one device is used, or no pin is known. A newer NCCL than pinned is fine.
    Sources: METADATA of the releases (rows in the matrix); NVIDIA/TensorRT-LLM issue 4238.
    """
    _several(case)
    package = _nccl(case)
    found = engine(case, matrix)
    pinned = Version.maybe(shared_pin(found, "torch").removeprefix("=="))
    subjects = [found, software(matrix, "torch", torch_version(case) or pinned)]
    for found in subjects:
        floor = _nccl_floor(found, package)
        if floor is not None and package.version and package.version.older_than(floor) is True:
            yield Fault(
                f"NCCL {package.version} is older than {found.label} asks for ({floor})",
                evidence=(Evidence(f"{package.name} {package.version}", package.location),),
                remedies=(_newer_nccl(package, floor),),
                sources=found.rows[0].source,
            )
            return


def _newer_nccl(package: Package, floor: Version) -> Remedy:
    if package.location.endswith(str(package.version)):
        return Remedy(f"unset the variable that names {package.location}")
    return Remedy(
        f"install NCCL {floor}",
        (f"uv pip install {shlex.quote(f'{package.name}>={floor}')}",),
        role="python_env",
    )


def _loaded_nccl(case: Case) -> Package | None:
    """The NCCL that a variable puts before the installed one, by the version in its name."""
    env = environment(case)
    named = next((env[name] for name in _NCCL_FILES if env.get(name)), "")
    match = _NCCL_FILE.search(named)
    return Package("nccl", Version.maybe(match[1]), location=named) if match else None


def _nccl_floor(found: Software, package: Package) -> Version | None:
    """The lowest NCCL that any release which it may be pins; None without a pin."""
    if found.version is None:
        return None
    floors = []
    for row in found.rows:
        names = [n for n in row.pins if n.startswith("nvidia-nccl")]
        pin = next((row.pins[n] for n in names if package.name in (n, "nccl")), "")
        bounds = [c.strip().lstrip("=>~") for c in pin.split(",") if c.strip()[:2] in (">=", "==")]
        floors.append(Version.maybe(bounds[0].rstrip(".*")) if bounds else None)
    known = [floor for floor in floors if floor is not None]
    return min(known, key=lambda v: v.low) if known and len(known) == len(floors) else None


@rule("SRV202", cause="nccl-too-old", severity=Severity.WARNING)
def nccl_before_card(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """NCCL is older than the card's generation, and several devices are used.

    What: the installed NCCL, or the file that a variable puts before it, against the first
        release that the matrix records for the cards.
    Why: it does not know the card's links and transports; the first all-reduce fails or hangs,
        or runs on kernels compiled from older PTX.
    How to fix: install a newer NCCL, or unset the variable that names the old one.
    Silent when: one device is used, or NCCL or card are not known.
    Sources: NCCL release notes (rows in the matrix).
    """
    _several(case)
    package = _nccl(case)
    found = software(matrix, "nvidia-nccl", package.version, package.location)
    for setting in settings(case, matrix):
        for match in applicable(matrix, found, "before-card", setting):
            yield Fault(
                f"NCCL {package.version}: {match.claim.text}",
                evidence=(Evidence(f"{package.name} {package.version}", package.location),),
                remedies=(_newer_nccl(package, Version(match.claim.until)),),
                sources=match.claim.source,
            )
            return


def _several(case: Case) -> None:
    if (count(case, "tensor_parallel_size") or 1) == 1 and len(case.devices) < 2:
        raise NotApplicable("one device")


def _nccl(case: Case) -> Package:
    """The NCCL that would be loaded; raises `MissingFact` where its version is not known."""
    package = _loaded_nccl(case) or case.scope.package(*_NCCL)
    if package is None or package.version is None:
        raise MissingFact("NCCL", Missing.NOT_STATED)
    return package


RULES = (nccl_below_pin, nccl_before_card)
