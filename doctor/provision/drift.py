"""What of a service is no longer what was applied. The same planner and the same judge.

Drift is the plan that would bring the machine back, with every file hashed; and what
`diagnose` says of the machine now.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from doctor.errors import UsageError
from doctor.findings import Diagnosis, Finding
from doctor.matrix import Matrix
from doctor.provision.goal import PROCESS, Goal
from doctor.provision.order import applied_goal, base_folder, judge_goal
from doctor.provision.survey import State, read_facts, read_home, read_state
from doctor.provision.target import Target
from doctor.provision.variables import applied_file


@dataclass(frozen=True)
class Difference:
    """One thing that drifted.

    `kind` is release, file, unit, model, process, lock, watcher, image or container.
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
        raise UsageError(f"{profile} was not applied to {target.name}", f"doctor apply {profile}")
    state = read_state(target, goal, deep=True)
    if goal.driver is not None:
        return _of_driver(goal, state, target, matrix)
    diagnosis = judge_goal(read_facts(target), goal, matrix)
    return Drift(profile, target.name, tuple(compare(goal, state)), diagnosis, goal)


def _of_driver(goal: Goal, state: State, target: Target, matrix: Matrix) -> Drift:
    from doctor.provision.driver.drift import differences, faults_of, judge_driver

    diagnosis = judge_driver(goal, read_facts(target), matrix)
    found = tuple(Difference(*row) for row in differences(goal, state))
    return Drift(goal.profile, target.name, found, diagnosis, goal, faults_of(diagnosis))


def compare(goal: Goal, state: State) -> list[Difference]:
    """All differences between what was applied and what is there. Pure."""
    return [
        *_release(goal, state),
        *_files(goal, state),
        *_model(goal, state),
        *_run(goal, state),
        *_container(goal, state),
    ]


def _container(goal: Goal, state: State) -> list[Difference]:
    if goal.container is None:
        return []
    name = goal.container.name
    found = [Difference("image", goal.container.image, fault) for fault in state.image]
    return found + [Difference("container", name, fault) for fault in state.container]


def _release(goal: Goal, state: State) -> list[Difference]:
    name = goal.release.name if goal.release else ""
    if state.current != name:
        seen = state.current or "nothing"
        return [Difference("release", "current", f"leads to {seen}, not to {name}")]
    found = [Difference("release", name, fault) for fault in state.damage]
    locked = (
        next((f.text for f in goal.release.files if f.path == "stack.lock"), None)
        if (goal.release)
        else None
    )
    if state.lock != locked:
        found.append(Difference("lock", "stack.lock", "is another than the one applied"))
    return found


def _files(goal: Goal, state: State) -> list[Difference]:
    found = []
    for file in (*goal.files, applied_file(goal)):
        there = state.files.get(file.path)
        kind = "unit" if file.path.endswith(".service") else "file"
        if there is None:
            found.append(Difference(kind, file.path, "is not there"))
        elif there.text != file.text:
            found.append(Difference(kind, file.path, "has another content"))
        elif there.mode != file.mode:
            found.append(Difference(kind, file.path, f"has mode {there.mode:o}, not {file.mode:o}"))
    return found


def _model(goal: Goal, state: State) -> list[Difference]:
    if goal.model is None:
        return []
    faults = state.models.get(goal.model.path, ())
    return [Difference("model", goal.model.path, fault) for fault in faults]


def _run(goal: Goal, state: State) -> list[Difference]:
    found = []
    engines = [process for process in state.processes if process.config]
    if not engines:
        found.append(Difference("process", goal.profile, "the engine does not run"))
    elif not state.runs(goal):
        same = any(process.argv == goal.argv for process in engines)
        what = "an older configuration" if same else "other arguments"
        found.append(Difference("process", goal.profile, f"the engine runs with {what}"))
    if goal.supervisor == PROCESS:
        if not state.is_watched:
            found.append(Difference("watcher", goal.profile, "nobody watches the engine"))
    else:
        found += _unit(goal, state)
    return found


def _unit(goal: Goal, state: State) -> list[Difference]:
    wanted = {"ActiveState": "active", "UnitFileState": "enabled", "NeedDaemonReload": "no"}
    return [
        Difference("unit", goal.unit, f"{name} is {state.unit.get(name) or 'unknown'}, not {value}")
        for name, value in wanted.items()
        if state.unit.get(name) != value
    ]
