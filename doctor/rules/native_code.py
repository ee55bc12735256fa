"""Builds that are known to reach some cards only by PTX, which the driver must understand."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from doctor.facts import Missing, MissingFact, Version
from doctor.findings import Evidence, Remedy
from doctor.matrix import ClaimMatch, Matrix
from doctor.rules import cards
from doctor.rules.builds import CudaBuild, local_build
from doctor.rules.cuda_level import Load, level, relation, two_parts
from doctor.rules.driver_choice import install_branch
from doctor.rules.engine import Case, Fault, NotApplicable, Rule, Severity, rule
from doctor.rules.release_builds import stated_build, toolkit_build
from doctor.rules.settings import Setting, applicable, settings
from doctor.rules.software import Software, engine


@rule("CUD105", cause="ptx-too-new", severity=Severity.ERROR)
def ptx_of_build_newer_than_driver(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """This build reaches the card only by PTX, and the PTX is newer than the driver compiles.

    What: builds of which the matrix says that a card has no machine code in them, with the
        CUDA that made their PTX, against the CUDA that the driver offers.
    Why: minor-version compatibility covers machine code only; the first kernel ends in
        "the provided PTX was compiled with an unsupported toolchain" (CUDA 222).
    How to fix: another build of the engine, or a driver for the CUDA that made it.
    Silent when: nothing is stated for the build and the card, or the driver is new enough.
    Sources: fat binaries of the wheels (claims in the matrix); CUDA Compatibility guide.
    """
    case.need_vendor("nvidia")
    found = engine(case, matrix)
    if not any(matrix.claims(found.name, "native-code")):
        raise NotApplicable(f"nothing is stated of the code of {found.name}")
    for setting in settings(case, matrix):
        own = replace(setting, variant=_variant(case, found))
        for match in applicable(matrix, found, "native-code", own):
            made_by = Version.maybe(str(match.claim.data.get("cuda", "")))
            if match.claim.value == "ptx-only" and made_by is not None:
                yield from _newer(case, matrix, match, own, made_by)


def _variant(case: Case, found: Software) -> str | None:
    local = found.version.local if found.version is not None else ""
    return case.scope.variants.get(found.name) or local or None


def _newer(
    case: Case, matrix: Matrix, match: ClaimMatch, setting: Setting, made_by: Version
) -> Iterator[Fault]:
    found = engine(case, matrix)
    offered, device = level(case, matrix), setting.device
    if offered is None or device is None:
        case.facts.nvidia.driver.known("nvidia.driver")
        raise MissingFact("CUDA version of the driver", Missing.NOT_STATED)
    if two_parts(offered.cuda).older_than(two_parts(made_by)) is True:
        yield Fault(
            f"{found.label} ({setting.variant}) holds no machine code for "
            f"{cards.label(device, matrix)}; its PTX is of CUDA {made_by}, and the driver "
            f"offers {offered.cuda}",
            evidence=(offered.evidence, found.evidence, cards.evidence(device, matrix)),
            remedies=(Remedy(match.claim.remedy),) if match.claim.remedy else (),
            sources=(*match.claim.source, *offered.sources),
            subject=device.id,
            extrapolated=match.extrapolated,
        )


@rule("CUD107", cause="ptx-too-new", severity=Severity.WARNING)
def compiled_by_newer_toolkit(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """What was compiled on this host is of a newer CUDA than the driver offers.

    What: the toolkit that compiles, where somebody says that the program was built here or with
        it, or tells of nothing else with CUDA, against the CUDA that the driver offers.
    Why: within a major only machine code runs on an older driver. Builds that name no card,
        or another one, leave the rest to PTX, which the driver must compile: "the provided
        PTX was compiled with an unsupported toolchain" (CUDA 222).
    How to fix: compile with a toolkit no newer than the driver, or for this very card
        (CMAKE_CUDA_ARCHITECTURES, TORCH_CUDA_ARCH_LIST), or raise the driver.
    Silent when: nothing was compiled here, or the driver offers that CUDA.
    Sources: CUDA Compatibility guide, limits of minor-version compatibility.
    """
    build = local_build(case) or stated_build(case) or toolkit_build(case)
    build = build or _of_jit(case, matrix)
    if build is None:
        raise NotApplicable("nothing is said to be compiled here")
    offered = level(case, matrix)
    if offered is None:
        case.facts.nvidia.driver.known("nvidia.driver")
        raise MissingFact("CUDA version of the driver", Missing.NOT_STATED)
    driver = case.facts.nvidia.driver.value
    if relation(build.cuda, offered.cuda, driver, matrix) is Load.MINOR:
        yield Fault(
            f"{build.package} is made with CUDA {build.cuda}, and the driver offers "
            f"{offered.cuda}: its PTX is too new",
            evidence=(build.evidence, offered.evidence),
            remedies=(
                Remedy("compile for this very card, or with a toolkit no newer than the driver"),
                *install_branch(case, matrix, build.cuda),
            ),
            sources=offered.sources,
        )


def _of_jit(case: Case, matrix: Matrix) -> CudaBuild | None:
    """What a program compiles by the toolkit while it runs."""
    found, toolkits = engine(case, matrix), case.facts.nvidia.toolkits
    versions = [t.version for t in toolkits.value or () if t.version is not None]
    if len(versions) != 1 or not any(matrix.claims(found.name, "jit-toolkit", found.version)):
        return None
    fact = Evidence(f"CUDA toolkit {versions[0]}", toolkits.at)
    return CudaBuild(found.label, None, versions[0], fact, assumed=True, several=True)


RULES: tuple[Rule, ...] = (ptx_of_build_newer_than_driver, compiled_by_newer_toolkit)
