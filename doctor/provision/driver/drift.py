"""What of a driver is no longer what was applied.

Holds, pins and versions are judged by the one judge, who is told what a lock promises. Only
what no fact speaks of is compared here: files, packages in no good state, modules, services.
"""

from __future__ import annotations

from collections.abc import Iterator

from doctor.diagnose import Request, diagnose
from doctor.facts import Expected, Facts, Version
from doctor.findings import Diagnosis, Finding, OutcomeKind, Rung, Severity
from doctor.matrix import Matrix
from doctor.probes.packages import matters
from doctor.provision.driver.holding import PREFERENCES
from doctor.provision.driver.sets import DriverSet
from doctor.provision.driver.telling import driver_files, file_diffs
from doctor.provision.goal import Goal
from doctor.provision.survey import State

_OURS = "DFT"


def expected_of(goal: Goal) -> Expected:
    """What the goal promises, in the words of the judge."""
    wanted = goal.driver
    if wanted is None:
        return Expected()
    pinned = any(file.path == PREFERENCES for file in goal.files)
    return Expected(
        packages=tuple((p.name, p.version) for p in wanted.packages if matters(p.name)),
        holds=wanted.holds,
        pins=wanted.holds if pinned else (),
        driver=Version.maybe(wanted.version),
    )


def judge_driver(goal: Goal, facts: Facts, matrix: Matrix) -> Diagnosis:
    """What the one judge says of that machine, knowing what was applied."""
    request = Request(scopes=tuple(s.id for s in facts.scopes if s.id == "host"))
    return diagnose(facts, matrix, request, expected_of(goal))


def faults_of(diagnosis: Diagnosis) -> tuple[Finding, ...]:
    """Findings that are drift: what a lock promised, and what is wrong with the driver itself."""
    found = [f for target in diagnosis.targets for f in target.findings]
    return tuple(
        f
        for f in found
        if f.severity is not Severity.INFO and (f.code.startswith(_OURS) or f.rung is Rung.DRIVER)
    )


def unseen(diagnosis: Diagnosis) -> Iterator[tuple[str, str, str]]:
    """Promises of which nobody can tell whether they are kept: that is no proof that they are."""
    open_ends = (OutcomeKind.CANNOT_TELL, OutcomeKind.CRASHED)
    for target in diagnosis.targets:
        for outcome in target.outcomes:
            if outcome.code.startswith(_OURS) and outcome.kind in open_ends:
                yield "unknown", outcome.code, f"{outcome.missing or 'its rule'} could not be read"


def differences(goal: Goal, state: State) -> Iterator[tuple[str, str, str]]:
    """Kind, subject and text of each difference that no fact speaks of. Pure."""
    wanted, there = goal.driver, state.driver
    if wanted is None or there is None:
        return
    wrong = {diff.path for diff in file_diffs(goal, state, ("/",))}
    for path, file in sorted(driver_files(goal).items()):
        now = state.files.get(path)
        if path not in wrong:
            continue
        if now is None:
            yield "file", path, "is not there"
        elif now.text != file.text:
            yield "file", path, "has another content"
        else:
            yield "file", path, f"has mode {now.mode:o}, not {file.mode:o}"
    for name in there.broken:
        yield "package", name, "is in a broken state"
    for name in there.leaving:
        yield "package", name, "is marked to go: the next run of apt removes it"
    for name in wanted.absent:
        if there.package(name) is not None:
            yield "package", name, "is there again"
    yield from _modules(wanted, state)
    yield from _units(wanted, state)


def _modules(wanted: DriverSet, state: State) -> Iterator[tuple[str, str, str]]:
    """A kernel without a module of that version: packages do not tell."""
    there = state.driver
    if there is None or not wanted.builds:
        return
    found = sorted(set(there.modules.values()))
    if wanted.version not in found:
        seen = ", ".join(found) or "no module"
        yield "module", f"kernel {there.kernel}", f"has {seen}, not {wanted.version}"
    elif len(found) > 1:
        yield "module", f"kernel {there.kernel}", f"has modules of {', '.join(found)}"


def _units(wanted: DriverSet, state: State) -> Iterator[tuple[str, str, str]]:
    there = state.driver
    for name in wanted.units if there else ():
        unit = there.units.get(name, {}) if there else {}
        if unit.get("LoadState") == "masked" or unit.get("UnitFileState") == "disabled":
            yield "unit", name, f"is {unit.get('UnitFileState') or 'masked'}"
