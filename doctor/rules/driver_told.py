"""Drivers of which somebody says that the same thing works there."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.facts import Version
from doctor.findings import Evidence, Remedy
from doctor.matrix import Matrix
from doctor.rules.driver_choice import install_branch
from doctor.rules.engine import Case, Fault, NotApplicable, Rule, Severity, rule

_NUMBER = r"\d{3}(?:\.\d{1,3}){0,2}"
_WORKS = re.compile(
    r"\b(?:works?|worked|runs|ran|is fine|was fine|no problem)\b[^.;\n]{0,40}\b(?:with|on|under) "
    rf"((?:an? |the )?(?:newer |older |nvidia )*(?:drivers? )?(?:versions? )?{_NUMBER}"
    rf"(?:(?:, | and | or ){_NUMBER}){{0,5}})\b",
    re.IGNORECASE,
)
_FIRST_BRANCH = 300  # no driver that is told of is older; other numbers of three digits are


@rule("DRV105", cause="driver-too-old", severity=Severity.WARNING)
def works_with_newer_driver(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """The same thing works with a newer driver, as somebody says, and with no older one.

    What: drivers with which it is said to work, against the one that is here.
    Why: what one driver runs and an older one does not is built for the newer; images that ask
        for a driver in no other way end in a segmentation fault or at the first CUDA call.
    How to fix: raise the driver to the branch that works, or take an older build.
    Silent when: nobody tells of another driver, or it works with one as old too.
    Sources: CUDA Compatibility guide.
    """
    driver, told = _told(case)
    if not any(other.older_than(driver) for other in told):
        newer = next((v for v in told if driver.older_than(v) is True), None)
        if newer is not None:
            yield Fault(
                f"it is said to work with driver {newer}, and driver {driver} is here",
                evidence=_evidence(case, driver, newer),
                remedies=(
                    *install_branch(case, matrix),
                    Remedy("or take a build for the CUDA version that this driver offers"),
                ),
                sources=("https://docs.nvidia.com/deploy/cuda-compatibility/",),
            )


@rule("DRV182", cause="driver-kernel-bug", severity=Severity.WARNING)
def works_with_older_and_newer_driver(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """The same thing works with an older driver and with a newer one, as somebody says.

    What: drivers with which it is said to work, against the one that is here between them.
    Why: what works before and after a release is broken in it: a fault of that driver, as
        when one announces peer access between cards that have none.
    How to fix: take one of the drivers that work, and hold it.
    Silent when: nobody tells of other drivers on both sides of this one.
    Sources: InternLM/lmdeploy issue 1750.
    """
    driver, told = _told(case)
    older = next((v for v in told if v.older_than(driver) is True), None)
    newer = next((v for v in told if driver.older_than(v) is True), None)
    if older is not None and newer is not None:
        yield Fault(
            f"it is said to work with drivers {older} and {newer}; {driver} between them is here",
            evidence=(*_evidence(case, driver, older), *_evidence(case, driver, newer)[:1]),
            remedies=(Remedy(f"go to driver {newer} or back to {older}, and hold it"),),
            sources=("https://github.com/InternLM/lmdeploy/issues/1750",),
        )


def _told(case: Case) -> tuple[Version, tuple[Version, ...]]:
    """The driver here, and those with which it is said to work."""
    matches = (match for note in case.facts.notes for match in _WORKS.finditer(note))
    texts = [text for match in matches for text in re.findall(_NUMBER, match[1])]
    told = tuple(Version(text if "." in text else f"{text}.*") for text in texts)
    told = tuple(version for version in told if (version.major or 0) >= _FIRST_BRANCH)
    if not told:
        raise NotApplicable("nobody tells of another driver")
    return case.facts.nvidia.driver.known("nvidia.driver"), told


def _evidence(case: Case, driver: Version, other: Version) -> tuple[Evidence, Evidence]:
    said = Evidence(f"it works with driver {other}", "notes")
    return said, Evidence(f"driver {driver}", case.facts.nvidia.driver.at)


RULES: tuple[Rule, ...] = (works_with_newer_driver, works_with_older_and_newer_driver)
