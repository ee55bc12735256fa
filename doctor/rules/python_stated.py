"""Packages that a person states beside the engine: do they go with this Python and each other?"""

from __future__ import annotations

from collections.abc import Iterator

from doctor.facts import Package, PythonInfo
from doctor.facts.engines import ENGINE_ORDER
from doctor.findings import Evidence, Remedy
from doctor.matrix import Matrix
from doctor.rules.engine import Case, Fault, NotApplicable, Rule, Severity, rule
from doctor.rules.framework_abi import EXTENSIONS
from doctor.rules.python import allows
from doctor.rules.settings import applicable, covering, settings
from doctor.rules.software import (
    Software,
    admits,
    engine_name,
    installed,
    lacks_wheel,
    packages,
    pythons,
    software,
)

# Judged by rules of their own; an engine beside the one that runs is often there for its kernels.
_JUDGED = (*ENGINE_ORDER, *EXTENSIONS, "torchvision", "torchaudio", "torchcodec", "triton")
# Of these the matrix lists what they take where it is there.
_WITH_COMPANIONS = ("transformers", "xformers")


@rule("PYE105", cause="python-unsupported", severity=Severity.WARNING)
def stated_package_out_of_range(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """A package that is stated beside the engine has no release file for this Python.

    What: Requires-Python and the wheels of each stated package that the matrix lists,
        against the Python that is stated.
    Why: an installer passes over such a release: "no matching distribution found".
    How to fix: a Python inside the range, or another release of the package.
    Silent when: the packages were read on disk, where another rule judges their metadata; the
        package is the engine itself; or its releases are not listed.
    Sources: METADATA and file names of the package index (rows in the matrix).
    """
    python = case.scope.python.known("python")
    stated = list(_stated(case, matrix))
    if not stated:
        raise NotApplicable("no package is stated that the matrix lists")
    for found in stated:
        specs = {row.requires_python for row in found.rows}
        if all(spec and allows(spec, python.version) is False for spec in specs):
            yield _refused(case, found, python, f"needs Python {found.rows[0].requires_python}")
        elif _has_no_wheel(found, python):
            offered = ", ".join(sorted(pythons(found.rows[0])))
            yield _refused(case, found, python, f"has wheels for Python {offered}")


def _has_no_wheel(found: Software, python: PythonInfo) -> bool:
    release = python.version.release
    minor = f"{release[0]}.{release[1]}" if len(release) > 1 else ""
    return bool(minor) and all(lacks_wheel(row, minor) for row in found.rows)


def _refused(case: Case, found: Software, python: PythonInfo, what: str) -> Fault:
    return Fault(
        f"{found.label} {what}; this is {python.version}",
        evidence=(found.evidence, Evidence(f"Python {python.version}", case.scope.python.at)),
        remedies=(Remedy(f"an environment with a Python that {found.label} takes"),),
        sources=found.rows[0].source,
        extrapolated=found.beyond,
    )


def _stated(case: Case, matrix: Matrix) -> Iterator[Software]:
    """Stated packages other than the engine, with the releases that the matrix lists of them."""
    try:
        own = engine_name(case, matrix)
    except NotApplicable:
        own = ""
    for package in packages(case):
        domain = matrix.engine_packages.get(package.name, "")
        if domain == package.name != own and not _is_read(package):
            found = software(matrix, domain, package.version, case.scope.packages.at)
            if found.rows and not found.beyond and found.is_public_build:
                yield found


def _is_read(package: Package) -> bool:
    return bool(package.requires or package.tags or package.location)


@rule("PYE207", cause="dependency-conflict", severity=Severity.WARNING)
def stated_packages_contradict(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """A stated package is outside what the release of another stated package asks for.

    What: the requirements that the matrix holds for each stated package's release against
        the other packages that are stated; used where no metadata were read.
    Why: one installer run sees all requirements, a later one only its own: "requires
        torch>=2.10, but you have torch 2.9.1".
    How to fix: versions that agree, best by one resolver run over all of them.
    Silent when: the metadata on disk were read; the package is an engine, a companion of torch
        or an extension, whose pins have rules of their own.
    Sources: METADATA of the releases (rows in the matrix).
    """
    if any(p.requires for p in packages(case)):
        raise NotApplicable("the metadata on disk were read")
    stated = [s for s in _stated(case, matrix) if s.name not in _JUDGED]
    if not stated:
        raise NotApplicable("no package is stated that the matrix lists")
    for found in stated:
        for other in packages(case):
            specs = {row.pins.get(other.name, "") for row in found.rows}
            if other.version is None or "" in specs:
                continue
            if all(admits(spec, other.version) is False for spec in specs):
                yield _contradicts(found, other, found.rows[0].pins[other.name])


def _contradicts(found: Software, other: Package, spec: str) -> Fault:
    return Fault(
        f"{found.label} asks for {other.name}{spec}; {other.version} is stated",
        evidence=(found.evidence, Evidence(f"{other.name} {other.version}", other.location)),
        remedies=(Remedy(f"install {found.name} and {other.name} in one resolver run"),),
        sources=found.rows[0].source,
    )


@rule("PYE208", cause="dependency-conflict", severity=Severity.WARNING)
def package_beside_too_old(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """A package that another one uses where it is there, in a version that it does not take.

    What: what the matrix holds of a release's optional companions against the packages here:
        the torch of Transformers, the FlashAttention of xFormers.
    Why: no installer checks it: "Disabling PyTorch because PyTorch >= 2.4 is required".
    How to fix: the version that the finding names, or an older release of the one that asks.
    Silent when: one of the two is not here, or a version is stated too loosely.
    Sources: METADATA of the releases, their extras (claims in the matrix).
    """
    here = case.scope.packages.known("packages")
    found = [installed(case, matrix, name) for name in _WITH_COMPANIONS]
    asking = [software for software in found if software is not None]
    if not asking:
        raise NotApplicable("no package here whose optional companions are listed")
    for own, match in ((asks, m) for asks in asking for m in covering(matrix, asks, "beside")):
        other = next((p for p in here if p.name == match.claim.key and p.version), None)
        if other is None or other.version is None:
            continue
        if admits(match.claim.value, other.version) is False:
            yield Fault(
                f"{own.label} takes {other.name}{match.claim.value}; here is {other.version}: "
                f"{match.claim.text}",
                evidence=(own.evidence, Evidence(f"{other.name} {other.version}", other.location)),
                remedies=(Remedy(match.claim.remedy),),
                sources=match.claim.source,
                extrapolated=match.extrapolated,
            )


@rule("PYE107", cause="arch-wheel-missing", severity=Severity.WARNING)
def stated_package_not_for_system(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """A package that is stated beside the engine is not built for this operating system.

    What: the operating system against what the matrix knows of the wheels of each stated
        package.
    Why: "no matching distribution found", or a package without its compiled library.
    How to fix: what the finding names: another release, WSL, or a container.
    Silent when: it runs in WSL or a container, or the packages were read on disk.
    Sources: file names of the package index (claims in the matrix).
    """
    system = case.facts.host.os.known("host.os")
    if case.scope.image.ref or case.facts.host.platform.value == "wsl2":
        raise NotApplicable("it runs in a Linux of its own")
    stated = list(_stated(case, matrix))
    if not stated:
        raise NotApplicable("no package is stated that the matrix lists")
    setting = settings(case, matrix)[0]
    for found in stated:
        for match in applicable(matrix, found, "platform", setting):
            if match.claim.key == system.id and match.claim.value == "unsupported":
                yield Fault(
                    f"{found.label} on {system.pretty or system.id}: {match.claim.text}",
                    evidence=(found.evidence, Evidence(system.id, case.facts.host.os.at)),
                    remedies=(Remedy(match.claim.remedy),) if match.claim.remedy else (),
                    sources=match.claim.source,
                    extrapolated=match.extrapolated,
                )


RULES: tuple[Rule, ...] = (
    stated_package_out_of_range,
    stated_packages_contradict,
    package_beside_too_old,
    stated_package_not_for_system,
)
