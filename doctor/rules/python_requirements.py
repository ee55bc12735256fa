"""Rules about distributions that contradict each other."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import replace

from doctor.facts import Package, Version
from doctor.findings import Evidence, Remedy
from doctor.matrix import Matrix
from doctor.matrix.model import Claim
from doctor.matrix.ranges import covers
from doctor.rules.engine import Case, Fault, NotApplicable, Severity, rule
from doctor.rules.framework import is_of_torch
from doctor.rules.framework_pins import COMPANIONS
from doctor.rules.relevance import is_relevant, needed, requirements
from doctor.rules.settings import Setting, applicable, holds, settings
from doctor.rules.software import Software, admits, engine, packages, software
from doctor.rules.source_tree import next_release

# What a distribution may be called (PEP 508); remains of an uninstall begin with "~".
_NUMBER = re.compile(r"\d+(?:\.\d+)+[a-z0-9.]*")
_NAME = re.compile(r"[a-z0-9](?:[a-z0-9._-]{0,200}[a-z0-9])?", re.IGNORECASE)


def _install(name: str, spec: str) -> Remedy:
    wanted = shlex.quote(f"{name}{spec}")
    return Remedy(
        f"install {name}{spec}",
        (f"uv pip install {wanted}", f"pip install {wanted}"),
        role="python_env",
    )


def _evidence(package: Package) -> Evidence:
    return Evidence(f"{package.name} {package.version}", package.location)


@rule("PYE201", cause="dependency-conflict", severity=Severity.ERROR)
def requirement_unmet(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """An installed distribution requires another version of a distribution than is installed.

    What: every Requires-Dist line that applies here against the installed versions.
    Why: a later `pip install` of something else replaced a dependency; pip says so once
        in red and goes on.
    How to fix: install the version that is asked for, best by installing the engine again
        in a fresh environment, so that one resolver run sees all requirements.
    Silent when: the requirement is on torch and its companions (rules of their own), or
        names an extra. Error for what the engine needs and breaks on, else info.
    Sources: core metadata (Requires-Dist), PEP 440, PEP 508.
    """
    held = {p.name: p for p in case.scope.packages.known("packages")}
    if not any(p.requires for p in held.values()):
        raise NotApplicable("no metadata of installed distributions")
    python, arch = case.scope.python.value, case.facts.host.arch.value or ""
    core = needed(case, matrix)
    for package in held.values():
        for wanted in requirements(package, python, arch):
            other = held.get(wanted.name)
            if other is None or other.version is None or wanted.name in COMPANIONS:
                continue
            if admits(wanted.spec, other.version) is False:
                urgent = package.name in core and is_relevant(case, matrix, wanted.name)
                yield _unmet(package, other, wanted.spec, urgent)


def _unmet(package: Package, other: Package, spec: str, urgent: bool) -> Fault:
    return Fault(
        f"{package.name} {package.version} requires {other.name}{spec}; "
        f"{other.version} is installed",
        evidence=(_evidence(package), _evidence(other)),
        remedies=(_install(other.name, spec),),
        sources=(f"METADATA of {package.name} {package.version}",),
        severity=None if urgent else Severity.INFO,
    )


_FEW = 4
_LIBRARIES = ("", "torch", "transformers", "diffusers", "peft")


@rule("PYE202", cause="dependency-conflict", severity=Severity.ERROR)
def known_bad_pair(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """Two installed versions are known not to work together, whatever their metadata say.

    What: pairs of versions that the matrix records as broken, for the engine and for every
        installed distribution that the matrix knows.
    Why: a dependency without an upper bound released a change that an older release of
        the engine cannot take.
    How to fix: the version that the finding names.
    Silent when: one of the two versions is not known well enough to decide. A warning where
        every release of the engine is broken by the package, or rules it out.
    Sources: threads in which maintainers confirmed the pair (rows in the matrix).
    """
    case.scope.packages.known("packages")
    setting = settings(case, matrix)[0]
    name = _engine_name(case, matrix)
    mine = {p for p in needed(case, matrix) | _pinned(case, matrix) | {name} if p}
    if name and is_of_torch(case, matrix, name):
        mine.add("torch")
    # What is stated beside a script of one's own, or a program of which nothing is known here, is
    # what that script imports.
    is_unknown = matrix.engine(name) is None
    is_script = (name in _LIBRARIES or is_unknown) and not any(p.requires for p in packages(case))
    # Who states a few packages states those that matter.
    is_short = 0 < len(list(packages(case))) <= _FEW and not any(p.requires for p in packages(case))
    for subject in _subjects(case, matrix, is_script):
        for match in applicable(matrix, subject, "known-bad", setting):
            other = case.scope.package(match.claim.key)
            carrier = str(match.claim.data.get("distribution", ""))
            if other is None or other.version is None:
                continue
            if carrier and case.scope.package(carrier) is None:
                continue
            if any(map(case.scope.package, match.claim.data.get("unless", ()))):
                continue  # it mends the other at run time
            if admits(match.claim.value, other.version):
                fault = _known_bad(subject, other, match.claim, match.extrapolated)
                beside = Severity.WARNING if is_script or is_short else Severity.INFO
                yield fault if subject.name in mine else replace(fault, severity=beside)
        if subject.name == name and subject.version is None:
            yield from _refused_by_all(case, matrix, subject, setting)


def _refused_by_all(
    case: Case, matrix: Matrix, subject: Software, setting: Setting
) -> Iterator[Fault]:
    """Of an engine of unknown version: every release is broken by the package or rules it out."""
    claims = [m.claim for m in matrix.claims(subject.name, "known-bad") if holds(m.claim, setting)]
    for claim in claims:
        other = case.scope.package(claim.key)
        if other is None or other.version is None or not other.version.is_exact:
            continue
        version, mine = other.version, [c for c in claims if c.key == claim.key]
        breaking = [c for c in mine if admits(c.value, version)]
        answers = [
            any(covers(c, Version(row.version)) for c in breaking)
            or admits(row.pins.get(other.name, ""), version) is False
            for row in subject.rows
        ]
        if claim in breaking and answers and all(answers):
            fault = _known_bad(subject, other, claim, "")
            yield replace(fault, severity=Severity.WARNING)
            return


def _engine_name(case: Case, matrix: Matrix) -> str:
    try:
        return engine(case, matrix).name
    except NotApplicable:
        return ""


def _pinned(case: Case, matrix: Matrix) -> frozenset[str]:
    """What every release that the engine may be asks for, where its metadata were not read."""
    try:
        pins = [frozenset(row.pins) for row in engine(case, matrix).rows]
    except NotApplicable:
        return frozenset()
    return frozenset.intersection(*pins) if pins else frozenset()


def _subjects(case: Case, matrix: Matrix, is_script: bool) -> Iterator[Software]:
    """The engine and every installed distribution with a domain of its own; torch of a script."""
    names = matrix.engine_packages
    seen = set()
    if case.workload is not None:
        found = engine(case, matrix)
        seen.add(found.name)
        yield found
    for package in packages(case):
        name = names.get(package.name)
        if name is not None and name not in seen:
            seen.add(name)
            yield software(matrix, name, package.version, package.location)
    if is_script and "torch" not in seen:
        yield software(matrix, "torch", None)


def _known_bad(subject: Software, other: Package, claim: Claim, extrapolated: str) -> Fault:
    reason = f": {claim.text}" if claim.text else ""
    remedy = Remedy(claim.remedy) if claim.remedy else _install(other.name, f"!={claim.value}")
    carrier = str(claim.data.get("distribution", ""))
    label = carrier if carrier and carrier != subject.name else subject.label
    return Fault(
        f"{label} does not work with {other.name} {other.version}{reason}",
        evidence=(subject.evidence, _evidence(other)),
        remedies=(remedy,),
        sources=claim.source,
        extrapolated=extrapolated,
        severity=_severity(claim),
    )


def _severity(claim: Claim) -> Severity | None:
    stated = claim.data.get("level")
    return Severity(stated) if stated in ("warning", "info") else None


@rule("PYE203", cause="dependency-conflict", severity=Severity.ERROR)
def pin_of_release_unmet(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """A package is outside what the engine's release asks for, by the matrix.

    What: the requirements that the matrix holds for the engine's release against the
        packages that are stated; used where the metadata on disk were not read.
    Why: as for unmet requirements of installed distributions.
    How to fix: the version that the release asks for.
    Silent when: the build is a vendor's own; the metadata on disk were read (that rule
        judges); the package is torch or a companion; all that differs is what a later
        release asks for, as beside a source tree. A warning if the package is of the
        same series as a version that is asked for, or the pin is exact: that often works,
        and engines do not look at run time. Likewise if only the torch tells the release. A
        note if a release candidate pins exactly and the package is newer in the same series:
        a checkout has the candidate's number for weeks while its pins move on.
    Sources: METADATA of the release (rows in the matrix).
    """
    found = engine(case, matrix)
    if found.name == "vllm-ascend":
        raise NotApplicable("its set of versions has a rule of its own")
    if any(p.requires for p in packages(case)):
        raise NotApplicable("the metadata on disk were read")
    if not found.is_public_build or not found.rows:
        raise found.unknown()
    ahead = next_release(case, matrix, found)
    for package in packages(case):
        if ahead is not None and package.name in ahead.pins:
            continue
        specs = {row.pins.get(package.name, "") for row in found.rows}
        if package.name in COMPANIONS or "" in specs or package.version is None:
            continue
        answers = {admits(spec, package.version) for spec in specs}
        if answers == {False}:
            yield _outside(found, package, package.version, specs)


def _outside(found: Software, package: Package, version: Version, specs: set[str]) -> Fault:
    spec = found.rows[0].pins[package.name]
    return Fault(
        f"{found.label} asks for {package.name}{spec}; {version} is installed",
        evidence=(found.evidence, _evidence(package)),
        remedies=(_install(package.name, spec),),
        sources=found.rows[0].source,
        extrapolated=found.beyond,
        severity=_urgency(found, version, specs),
    )


def _urgency(found: Software, version: Version, specs: set[str]) -> Severity | None:
    """How much a version outside of these requirements matters; None is an error."""
    exact = all(s.startswith("==") and "," not in s for s in specs)
    wanted = [Version(text) for spec in specs for text in _NUMBER.findall(spec)]
    near = [it for it in wanted if _series(it) == _series(version)]
    is_later = bool(near) and all(version.newer_than(it) for it in near)
    if exact and is_later and any(row.prerelease for row in found.rows):
        return Severity.INFO
    return Severity.WARNING if exact or near or found.version is None else None


def _series(version: Version) -> tuple[int, ...]:
    """The number that changes with what breaks callers: the first that is not 0."""
    return version.release[: 1 if version.major else 2]


@rule("PYE204", cause="dependency-conflict", severity=Severity.WARNING)
def distribution_broken(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """An installed distribution's metadata cannot be read, or its files are half removed.

    What: distributions whose METADATA is missing or unreadable, and remains of an
        interrupted uninstall.
    Why: installers and engines ask for versions at start-up and fail on such remains.
    How to fix: remove the folder and install the package again, or make a new environment.
    Silent when: every distribution could be read.
    Sources: core metadata specification; pip leaves folders that begin with "~".
    """
    for package in case.scope.packages.known("packages"):
        if package.broken:
            urgent = is_relevant(case, matrix, package.name)
            yield Fault(
                f"{package.name} is broken: {package.broken}",
                evidence=(Evidence(package.name, package.location),),
                remedies=(_renew(package),),
                severity=Severity.ERROR if urgent else None,
            )


def _renew(package: Package) -> Remedy:
    if _NAME.fullmatch(package.name) is None:
        return Remedy(f"remove what is left of it in {package.location}")
    command = f"uv pip install --reinstall {package.name}"
    return Remedy(f"install {package.name} again", (command,), role="python_env")


RULES = (requirement_unmet, known_bad_pair, pin_of_release_unmet, distribution_broken)
