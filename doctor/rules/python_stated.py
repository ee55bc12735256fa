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
from doctor.rules.software import Software, admits, engine_name, packages, pythons, software

# Judged by rules of their own; an engine beside the one that runs is often there for its kernels.
_JUDGED = (*ENGINE_ORDER, *EXTENSIONS, "torchvision", "torchaudio", "torchcodec", "triton")


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
    return bool(minor) and all(row.pythons and minor not in pythons(row) for row in found.rows)


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


RULES: tuple[Rule, ...] = (stated_package_out_of_range, stated_packages_contradict)
