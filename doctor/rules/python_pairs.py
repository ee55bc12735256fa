"""Distributions that must have one version, and ones that an engine asks for apart."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from doctor.facts import Missing, MissingFact, Package, Version
from doctor.findings import Evidence, Remedy
from doctor.matrix import ClaimMatch, Matrix
from doctor.rules.engine import Case, Fault, NotApplicable, Severity, rule
from doctor.rules.model_facts import environment
from doctor.rules.settings import applicable, covering, settings
from doctor.rules.software import Software, admits, engine, packages, shared_pin, software

# Parts of a system have rules of their own.
_NOT_PYTHON = ("cudnn", "nnal")
_NO_CHECK = "FLASHINFER_DISABLE_VERSION_CHECK"


@rule("PYE205", cause="dependency-conflict", severity=Severity.ERROR)
def parts_of_two_versions(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """Two distributions that are parts of one release have different versions.

    What: pairs for which the matrix says that their versions must be equal, such as a
        package and its precompiled kernels.
    Why: the package refuses to import, or calls kernels that are not there.
    How to fix: install both in one version.
    Silent when: one of the two is not installed, the check is switched off by its variable,
        or the versions are equal. A warning where the environment was not read in full.
    Sources: import checks of the packages (rows in the matrix).
    """
    held = {p.name: p for p in case.scope.packages.known("packages")}
    if environment(case).get(_NO_CHECK, "") == "1":
        raise NotApplicable("the check is switched off")
    for package in packages(case):
        domain = matrix.engine_packages.get(package.name)
        # Only the package that gives the domain its name speaks for it.
        if domain == package.name:
            found = software(matrix, domain, package.version, package.location)
            for match in covering(matrix, found, "pairing"):
                yield from _unequal(case, found, held, match)


def _unequal(
    case: Case, found: Software, held: dict[str, Package], match: ClaimMatch
) -> Iterator[Fault]:
    if match.claim.value not in ("equal", "series") or found.version is None:
        return
    is_series = match.claim.value == "series"
    for name in match.claim.key.split("|"):
        other = held.get(name)
        if other is None or other.version is None or not other.version.is_exact:
            continue
        ours, theirs = (_wanted(v, is_series) for v in (found.version, other.version))
        if ours.same_as(theirs) is False:
            wanted = shlex.quote(f"{name}=={ours}{'.*' if is_series else ''}")
            yield Fault(
                f"{found.label} and {name} {other.version} must have one "
                f"{'series' if is_series else 'version'}: {match.claim.text}",
                evidence=(found.evidence, Evidence(f"{name} {other.version}", other.location)),
                remedies=(
                    Remedy(f"install {wanted}", (f"uv pip install {wanted}",), role="python_env"),
                ),
                sources=match.claim.source,
                extrapolated=match.extrapolated,
                severity=None if _is_sure(case, match) else Severity.WARNING,
            )


def _wanted(version: Version, is_series: bool) -> Version:
    """What of a version must be the same in both: all of it, or its series (0.24)."""
    return Version(".".join(map(str, version.release[:2])) if is_series else version.public)


def _is_sure(case: Case, match: ClaimMatch) -> bool:
    return match.claim.data.get("level") != "warning" and _is_environment_known(case)


def _is_environment_known(case: Case) -> bool:
    """Whether a variable that switches the check off would have been seen."""
    env = case.workload.env if case.workload is not None else case.scope.env
    return env.is_known and not env.partial


@rule("PYE206", cause="dependency-conflict", severity=Severity.ERROR)
def package_for_feature_missing(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """What was asked of the engine needs a distribution that is not installed with it.

    What: packages that a release asks for only where an argument calls for them.
    Why: they moved out of the engine's own requirements; the start ends in an import error.
    How to fix: install the package that the finding names.
    Silent when: the argument does not call for one, or nobody looked for the package.
    Sources: requirement files and release notes of the engines (rows in the matrix).
    """
    found = engine(case, matrix)
    setting = settings(case, matrix)[0]
    wanted = [
        match
        for match in applicable(matrix, found, "requires-package", setting)
        if match.claim.key not in _NOT_PYTHON and (match.claim.since or match.claim.until)
    ]
    if not wanted:
        raise NotApplicable("no package is asked for apart")
    for match in wanted:
        yield from _not_there(case, found, match)


def _not_there(case: Case, found: Software, match: ClaimMatch) -> Iterator[Fault]:
    claim, package = match.claim, case.scope.package(match.claim.key)
    if package is None:
        lacks = case.scope.lacks(claim.key)
        if lacks is None:
            case.scope.packages.known("packages")
            raise MissingFact(f"whether {claim.key} is installed", Missing.NOT_STATED)
        what = "is not installed" if lacks else ""
    else:
        fits = claim.value == "*" or package.version is None
        outside = not fits and package.version and admits(claim.value, package.version) is False
        what = f"is {package.version}, and {claim.value} is asked for" if outside else ""
    if what:
        yield Fault(
            f"{found.label} needs {claim.key} here, which {what}: {claim.text}",
            evidence=(found.evidence,),
            remedies=(Remedy(claim.remedy or f"install {claim.key}"),),
            sources=claim.source,
            extrapolated=match.extrapolated,
        )


@rule("PYE210", cause="dependency-conflict", severity=Severity.WARNING)
def two_pins_of_torch(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """Two stated packages pin torch exactly, to different versions, and no torch is told.

    What: the exact pin of torch in the releases of all packages that are stated.
    Why: no torch satisfies both: an installer finds no solution, or the one installed later
        takes away the torch of the other.
    How to fix: releases that pin the same torch, or leave one of them out.
    Silent when: a torch is told, which other rules hold against each of them; a plug-in brings
        a torch of its own to the engine; or a release is not listed.
    Sources: METADATA of the releases (rows in the matrix).
    """
    if case.scope.package("torch") or case.scope.torch.is_known or case.scope.package(*_PLUGINS):
        raise NotApplicable("a torch is told, or a plug-in brings its own")
    pins: dict[str, Software] = {}
    for package in case.scope.packages.known("packages"):
        name = matrix.engine_packages.get(package.name, "")
        if name and package.version is not None and package.version.is_exact:
            found = software(matrix, name, package.version, case.scope.packages.at)
            pin = shared_pin(found, "torch")
            if pin.startswith("==") and found.is_public_build and not found.beyond:
                pins.setdefault(pin, found)
    if len(pins) > 1:
        (one, first), (other, second) = list(pins.items())[:2]
        yield Fault(
            f"{first.label} pins torch{one}, and {second.label} torch{other}",
            evidence=(first.evidence, second.evidence),
            remedies=(Remedy(f"leave out {second.name}, or take one that pins torch{one}"),),
            sources=(*first.rows[0].source, *second.rows[0].source),
        )


_PLUGINS = ("vllm-ascend", "torch-npu")

RULES = (parts_of_two_versions, package_for_feature_missing, two_pins_of_torch)
