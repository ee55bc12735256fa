"""Is the CUDA toolkit new enough for what is compiled on this host?"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from doctor.facts import Version
from doctor.findings import Evidence, Remedy
from doctor.matrix import ClaimMatch, Matrix
from doctor.matrix.ranges import covers
from doctor.rules.engine import Case, Fault, NotApplicable, Rule, Severity, rule
from doctor.rules.python_toolchain import compiling, install, prebuilt, toolkits
from doctor.rules.settings import Setting, applicable, covering, holds, settings
from doctor.rules.software import Software, admits, engine, packages, software


@rule("PYE302", cause="build-toolchain-missing", severity=Severity.ERROR)
def toolkit_too_old_for_build(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """The CUDA toolkit is older than the engine's sources or run-time kernels can be built with.

    What: the toolkits of the host against the lowest one that the matrix records for
        building the engine (those that come as source), or kernels at run time.
    Why: distributions ship toolkits many years old; CMake finds them first.
    How to fix: install a current toolkit from NVIDIA and name its nvcc in CUDACXX.
    Silent when: the engine comes as a built wheel or image, or a newer toolkit is there
        too. A warning for kernels compiled at run time, of which some come ready.
    Sources: build documentation of the engine (rows in the matrix).
    """
    setting = settings(case, matrix)[0]
    versions = toolkits(case) if case.facts.nvidia.toolkits.value else []
    pairs = [
        (found, match)
        for found in _built(case, matrix)
        for match in (
            *applicable(matrix, found, "toolkit", setting),
            *_of_any_version(matrix, found, setting, versions),
        )
        if not prebuilt(case, match)
    ]
    if not pairs:
        raise NotApplicable("the matrix names no toolkit for it")
    versions = toolkits(case)
    newest = max(versions, key=lambda version: version.low)
    for found, match in pairs:
        if all(admits(match.claim.value, version) is False for version in versions):
            fault = _old_toolkit(case, found, newest, match)
            is_own = found.name == engine(case, matrix).name
            yield fault if is_own else replace(fault, severity=Severity.WARNING)


def _of_any_version(
    matrix: Matrix, found: Software, setting: Setting, toolkits: list[Version]
) -> list[ClaimMatch]:
    """The mildest claim, where no version is stated and each has one that no toolkit meets."""
    claims = [m for m in matrix.claims(found.name, "toolkit") if holds(m.claim, setting)]
    if found.version is not None or not found.versions or not toolkits:
        return []
    refusing = [m for m in claims if not any(admits(m.claim.value, v) for v in toolkits)]
    for version in found.versions:
        if not any(covers(match.claim, version) for match in refusing):
            return []
    return refusing[-1:]


def _built(case: Case, matrix: Matrix) -> Iterator[Software]:
    """What compiles, and stated packages that come as source and check the compiler first."""
    yield from compiling(case, matrix)
    own = engine(case, matrix).name
    for package in packages(case):
        if package.location or matrix.engine_packages.get(package.name) in (None, own):
            continue
        found = software(matrix, package.name, package.version)
        if covering(matrix, found, "artefact", "sdist"):
            yield found


def _old_toolkit(case: Case, found: Software, newest: Version, match: ClaimMatch) -> Fault:
    return Fault(
        f"{found.label} needs a CUDA toolkit {match.claim.value} to be built; {newest} is here",
        evidence=(Evidence(f"CUDA toolkit {newest}", case.facts.nvidia.toolkits.at),),
        remedies=(
            Remedy(
                match.claim.remedy or "install a current CUDA toolkit",
                install(case, "nvcc").commands,
            ),
        ),
        sources=match.claim.source,
        extrapolated=match.extrapolated,
    )


RULES: tuple[Rule, ...] = (toolkit_too_old_for_build,)
