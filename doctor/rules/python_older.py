"""Releases older than those that the matrix lists one by one: for which Pythons were they built?"""

from __future__ import annotations

from collections.abc import Iterator

from doctor.facts import Version
from doctor.findings import Evidence, Remedy
from doctor.matrix import Matrix
from doctor.rules.engine import Case, Fault, NotApplicable, Rule, Severity, rule
from doctor.rules.settings import covering
from doctor.rules.software import packages, software


@rule("PYE111", cause="python-unsupported", severity=Severity.ERROR)
def old_release_for_python(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """An old release that is stated has no wheel for the Python that is stated.

    What: releases that the matrix knows by their line only, against the oldest and the newest
        Python that wheels of the line are for.
    Why: an installer finds none: "Could not find a version that satisfies the requirement
        torch==1.12.1+cu113".
    How to fix: an environment with a Python of the range, or a newer release.
    Silent when: the packages were read on disk, it runs from an image, or the release is listed.
        A warning for a version without the label of an index, which may be somebody's own build.
    Sources: file names of the indexes (claims in the matrix).
    """
    python = case.scope.python.known("python").version
    here = Version(".".join(map(str, python.release[:2])))
    if case.scope.image.ref:
        raise NotApplicable("it runs from an image, which brings its builds")
    for package in packages(case):
        domain = matrix.engine_packages.get(package.name, "")
        is_read = package.requires or package.tags or package.location
        if domain != package.name or package.version is None or is_read:
            continue
        found = software(matrix, domain, package.version, case.scope.packages.at)
        for match in () if found.rows else covering(matrix, found, "wheel-pythons"):
            first, last = match.claim.value.split("|")
            beyond = Version(last).older_than(here) is True
            if beyond or here.older_than(Version(first)) is True:
                label = package.version.local
                yield Fault(
                    f"{found.label} has wheels for Python {first} to {last}; this is {python}",
                    evidence=(found.evidence, Evidence(f"Python {python}", case.scope.python.at)),
                    remedies=(Remedy(f"an environment with Python {last}, or a newer release"),),
                    sources=match.claim.source,
                    severity=None if label.startswith(("cu", "cpu")) else Severity.WARNING,
                )


RULES: tuple[Rule, ...] = (old_release_for_python,)
