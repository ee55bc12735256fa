"""Engines of which some releases have no build for the machine's processor."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from doctor.facts import Version
from doctor.findings import Evidence, Remedy
from doctor.matrix import Matrix
from doctor.matrix.model import Release
from doctor.rules.builds import as_cuda
from doctor.rules.engine import Case, Fault, NotApplicable, Rule, Severity, rule
from doctor.rules.framework import TORCH_ENGINES, is_jetson, wants_cpu
from doctor.rules.host_cpu import architecture
from doctor.rules.settings import holds, settings
from doctor.rules.software import Software, engine, packages, software, torch_version

_GPU_PACKAGE = "onnxruntime-gpu"


@rule("HST133", cause="arch-wheel-missing", severity=Severity.WARNING)
def wheels_not_for_architecture(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """Releases of the engine, up to some version or all, have no wheel for this processor.

    What: the architecture against what the matrix knows of the engine's wheels: those of the
        releases that it may be, and what is stated of its platforms.
    Why: "no matching distribution found", a source build that takes hours, or an old release
        that an installer takes without a word.
    How to fix: the release from which there are wheels, an image for the architecture, or
        compiling it.
    Silent when: only releases from before the card have none, no NVIDIA card is named, a CPU
        run was asked for, it runs from an image, is installed with the torch that it pins, is
        a build of one's own, or the host is a Jetson, whose wheels come from elsewhere.
    Sources: file names of the package index and of release pages (rows in the matrix).
    """
    found = engine(case, matrix)
    arch = architecture(case)
    case.facts.devices.present("devices")
    if not case.nvidia_devices or _comes_from_elsewhere(case, matrix, found):
        raise NotApplicable("no card is wanted, or its build comes from elsewhere")
    setting = settings(case, matrix)[0]
    stated = matrix.claims(found.name, "platform", found.version, arch)
    refusing = (m for m in stated if m.claim.value == "unsupported" and holds(m.claim, setting))
    match = next(refusing, None)
    if match is not None:
        yield Fault(
            f"{found.label} on {arch}: {match.claim.text}",
            evidence=_evidence(case, found, arch),
            remedies=(Remedy(match.claim.remedy),) if match.claim.remedy else (),
            sources=match.claim.source,
            extrapolated=match.extrapolated,
        )
    elif found.version is None:
        meant = tuple(row for row in found.rows if not _is_before_card(case, matrix, row))
        yield from _releases_without(case, replace(found, rows=meant), arch)


def _comes_from_elsewhere(case: Case, matrix: Matrix, found: Software) -> bool:
    scope, torch = case.scope, torch_version(case)
    is_inside = bool(scope.image.ref) or scope.kind in ("container", "image")
    # A torch beside an engine that pins one came with it; a vendor's own is of its image.
    is_installed = torch is not None and (torch.is_prerelease or _pins_torch(found))
    is_own = found.checkout or found.name in scope.variants
    own = is_inside or is_own or is_jetson(case, matrix)
    return own or is_installed or wants_cpu(case)


def _is_before_card(case: Case, matrix: Matrix, row: Release) -> bool:
    """A release for a CUDA that no compiler knew the card in: its owner means a later one."""
    cuda = as_cuda(row.cuda or "")
    return cuda is not None and any(
        cuda.older_than(first) is True for first in first_cuda(case, matrix)
    )


def first_cuda(case: Case, matrix: Matrix) -> list[Version]:
    """Give for each card the first CUDA version whose compiler knows it, where that is listed."""
    cards = {matrix.capability_of(device) for device in case.nvidia_devices}
    names = [f"sm_{card.major}{card.minor}" for card in cards if card is not None]
    knowing = [
        [Version(row.cuda) for row in matrix.cuda.compilers if name in row.targets]
        for name in names
    ]
    return [min(found, key=lambda version: version.low) for found in knowing if found]


def _pins_torch(found: Software) -> bool:
    return any("torch" in row.pins for row in found.rows)


def _evidence(case: Case, found: Software, arch: str) -> tuple[Evidence, ...]:
    return Evidence(f"host is {arch}", case.facts.host.arch.at), found.evidence


def _releases_without(case: Case, found: Software, arch: str) -> Iterator[Fault]:
    """Some or all of the releases that it may be have wheels, and none for this processor."""
    listed = [row for row in found.rows if row.archs]
    lacking = [row for row in listed if arch not in row.archs]
    if not lacking:
        return
    first = _first_with(listed, arch)
    since = f"; there are some from {first} on" if first else ""
    yield Fault(
        f"{_name(found)} up to {lacking[0].version} has no wheel for {arch}{since}",
        evidence=_evidence(case, found, arch),
        remedies=(
            Remedy(f"install {_name(found)} {first}".rstrip() + ", or build it from source"),
        ),
        sources=lacking[0].source,
    )


def _name(found: Software) -> str:
    return _GPU_PACKAGE if found.name == "onnxruntime" else found.name


def _first_with(rows: list[Release], arch: str) -> str:
    fitting = [row.version for row in rows if arch in row.archs]
    return min(fitting, key=lambda text: Version(text).low, default="")


# They come as packages of the distribution or as archives too.
_NOT_BY_PIP = ("tensorrt", "onnxruntime")


@rule("HST135", cause="arch-wheel-missing", severity=Severity.WARNING)
def package_not_for_architecture(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """A package that is named beside the engine has no wheel for this processor.

    What: the architecture against those of the wheels of each package's release; packages
        that were looked for and not found, of which no wheel is for it at all; and images that
        their project builds for x86 alone.
    Why: pip then looks for the source, which takes hours or fails, or finds nothing.
    How to fix: the release from which there are wheels, an image for the architecture, or a
        build from source.
    Silent when: more is known of the environment than what is wanted in it, something is
        compiled here, it runs from an image, the host is a Jetson, or nothing is listed.
    Sources: file names on the package index (rows in the matrix).
    """
    arch = architecture(case)
    work = case.workload
    is_built = work is not None and work.building.is_known
    is_inside = bool(case.scope.image.ref) or case.scope.kind in ("container", "image")
    alone = _of_x86_alone(case, matrix, arch) or _image_of_x86(case, matrix, arch)
    if alone is not None:
        yield alone
        return
    if is_inside or is_built or case.scope.torch.is_known or is_jetson(case, matrix):
        raise NotApplicable("it is known to be there, or comes from elsewhere")
    for package in packages(case):
        name = matrix.engine_packages.get(package.name, "")
        own = (
            name in (*TORCH_ENGINES, *_NOT_BY_PIP)
            or package.location
            or package.name in case.scope.variants
        )
        found = software(matrix, package.name, package.version, case.scope.packages.at)
        if not name or own or found.beyond or not found.rows:
            continue
        if all(row.archs and arch not in row.archs for row in found.rows):
            yield from _releases_without(case, replace(found, rows=found.rows), arch)
            return


def _of_x86_alone(case: Case, matrix: Matrix, arch: str) -> Fault | None:
    """A package that was missed, and that its project makes for x86 alone."""
    missing = [name.strip().lower().replace("_", "-") for name in case.scope.absent.value or ()]
    for match in matrix.claims("cpu", "x86-wheels") if arch == "aarch64" else ():
        name = next((n for n in missing if re.fullmatch(match.claim.key, n)), "")
        if name:
            return Fault(
                f"{name} has wheels for x86_64 alone, and this host is {arch}",
                evidence=(
                    Evidence(f"{name} is absent", case.scope.absent.at),
                    Evidence(f"host is {arch}", case.facts.host.arch.at),
                ),
                remedies=(Remedy(match.claim.remedy or "build it, or do without it"),),
                sources=match.claim.source,
            )
    return None


def _image_of_x86(case: Case, matrix: Matrix, arch: str) -> Fault | None:
    """An image that is built for x86 alone: it is not found, or runs by emulation."""
    ref = case.scope.image.ref
    for match in matrix.claims("cpu", "x86-images") if arch == "aarch64" and ref else ():
        if re.search(match.claim.key, ref):
            return Fault(
                f"{ref} is built for x86_64 alone, and this host is {arch}",
                evidence=(
                    Evidence(ref, "image"),
                    Evidence(f"host is {arch}", case.facts.host.arch.at),
                ),
                remedies=(Remedy(match.claim.remedy or "build it for this processor"),),
                sources=match.claim.source,
            )
    return None


RULES: tuple[Rule, ...] = (wheels_not_for_architecture, package_not_for_architecture)
