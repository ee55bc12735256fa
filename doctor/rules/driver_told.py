"""Drivers of which somebody says that the same thing works there."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.facts import Version
from doctor.findings import Evidence, Remedy
from doctor.matrix import Matrix
from doctor.rules.driver_choice import install_branch
from doctor.rules.engine import Case, Fault, NotApplicable, Rule, Severity, rule

_WORKS = re.compile(
    r"\b(?:works?|worked|runs|ran|is fine|was fine|no problem)\b[^.;\n]{0,30}\b(?:with|on|under) "
    r"(?:an? |the )?(?:newer |nvidia )?driver (?:version )?(\d{3}(?:\.\d{1,3}){0,2})\b",
    re.IGNORECASE,
)


@rule("DRV105", cause="driver-too-old", severity=Severity.WARNING)
def works_with_newer_driver(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """The same thing works with a newer driver, as somebody says.

    What: drivers with which it is said to work, against the one that is here.
    Why: what one driver runs and an older one does not is built for the newer; images that ask
        for a driver in no other way end in a segmentation fault or at the first CUDA call.
    How to fix: raise the driver to the branch that works, or take an older build.
    Silent when: nobody tells of another driver, or the one here is as new.
    Sources: CUDA Compatibility guide.
    """
    told = [m for m in map(_WORKS.search, case.facts.notes) if m is not None]
    if not told:
        raise NotApplicable("nobody tells of another driver")
    reading = case.facts.nvidia.driver
    driver = reading.known("nvidia.driver")
    for match in told:
        other = Version(match[1] if "." in match[1] else f"{match[1]}.*")
        if driver.older_than(other) is True:
            yield Fault(
                f"it works with driver {match[1]}, and driver {driver} is here",
                evidence=(Evidence(match[0], "notes"), Evidence(f"driver {driver}", reading.at)),
                remedies=(
                    *install_branch(case, matrix),
                    Remedy("or take a build for the CUDA version that this driver offers"),
                ),
                sources=("https://docs.nvidia.com/deploy/cuda-compatibility/",),
            )
            return


RULES: tuple[Rule, ...] = (works_with_newer_driver,)
