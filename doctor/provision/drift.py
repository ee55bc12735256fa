"""What of a service is no longer what was applied. The same planner and the same judge.

Drift is the plan that would bring the machine back, with every file hashed; and what
`diagnose` says of the machine now.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec

from doctor.errors import UsageError
from doctor.findings import Diagnosis, Finding
from doctor.matrix import Matrix
from doctor.provision.goal import Goal
from doctor.provision.order import applied_goal, base_folder, judge_goal
from doctor.provision.survey import State, program_module, read_facts, read_home, read_state
from doctor.provision.target import Target
from doctor.provision.variables import applied_file
from doctor.resources import resource


@dataclass(frozen=True)
class Difference:
    """One thing that drifted.

    `kind` is release, file, unit, timer, model, process, lock, watcher, image or container;
    of a driver also package, module, and unknown for what could not be read.
    """

    kind: str
    subject: str
    text: str


@dataclass(frozen=True)
class Drift:
    """What was found of one service."""

    profile: str
    target: str
    differences: tuple[Difference, ...]
    diagnosis: Diagnosis
    goal: Goal = field(repr=False)
    faults: tuple[Finding, ...] = ()

    @property
    def is_clean(self) -> bool:
        """True if the machine is what was applied; `faults` are findings that are drift."""
        return not self.differences and not self.faults


def find_drift(target: Target, profile: str, user: bool, matrix: Matrix) -> Drift:
    """Compare a service with what was applied. Raises UsageError if nothing was."""
    home = f"{base_folder(target, user)}/{profile}"
    goal = applied_goal(read_home(target, home))
    if goal is None:
        own, other = (" --user", "without") if user else ("", "with")
        hint = f"doctor apply {profile}{own}, or ask {other} --user if that is how it was applied"
        raise UsageError(f"{profile} was not applied to {target.name}", hint)
    state = read_state(target, goal, deep=True)
    if goal.driver is not None:
        return _of_driver(goal, state, target, matrix)
    if goal.npu is not None:
        return _of_npus(goal, state, target, matrix)
    diagnosis = judge_goal(read_facts(target), goal, matrix)
    return Drift(profile, target.name, tuple(compare(goal, state)), diagnosis, goal)


def _of_driver(goal: Goal, state: State, target: Target, matrix: Matrix) -> Drift:
    from doctor.provision.driver.drift import differences, faults_of, judge_driver, unseen

    diagnosis = judge_driver(goal, read_facts(target), matrix)
    rows = (*differences(goal, state), *unseen(diagnosis))
    found = tuple(Difference(*row) for row in rows)
    return Drift(goal.profile, target.name, found, diagnosis, goal, faults_of(diagnosis))


def _of_npus(goal: Goal, state: State, target: Target, matrix: Matrix) -> Drift:
    from doctor.diagnose import Request, diagnose
    from doctor.provision.npu.drift import differences

    diagnosis = diagnose(read_facts(target), matrix, Request(scopes=("host",)))
    found = tuple(Difference(*row) for row in differences(goal, state))
    return Drift(goal.profile, target.name, (*found, *_note(goal, state)), diagnosis, goal)


def compare(goal: Goal, state: State) -> list[Difference]:
    """All differences between what was applied and what is there.

    The comparison is the program that a drift timer runs on the machine itself.
    """
    program = program_module(resource("playbooks", "roles", "timers", "files", "drift_check.py"))
    rows = program.compare(msgspec.to_builtins(goal), msgspec.to_builtins(state))
    return [*(Difference(**row) for row in rows), *_note(goal, state)]


def _note(goal: Goal, state: State) -> list[Difference]:
    """The machine's own note of what was applied, by which the program itself goes."""
    wanted = applied_file(goal)
    there = state.files.get(wanted.path)
    if there is None:
        return [Difference("file", wanted.path, "is not there")]
    if there.text != wanted.text:
        return [Difference("file", wanted.path, "has another content")]
    if there.mode != wanted.mode:
        text = f"has mode {there.mode:o}, not {wanted.mode:o}"
        return [Difference("file", wanted.path, text)]
    return []
