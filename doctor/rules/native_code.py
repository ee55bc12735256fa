"""Builds that are known to reach some cards only by PTX, which the driver must understand."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from doctor.facts import Missing, MissingFact, Version
from doctor.findings import Remedy
from doctor.matrix import ClaimMatch, Matrix
from doctor.rules import cards
from doctor.rules.cuda_level import level, two_parts
from doctor.rules.engine import Case, Fault, NotApplicable, Rule, Severity, rule
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


RULES: tuple[Rule, ...] = (ptx_of_build_newer_than_driver,)
