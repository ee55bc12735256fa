"""From a goal and a state to steps. Pure: no file, no process, no clock.

A plan names for each step what changes, why, how risky it is, whether it can be taken back
and who must act. An empty plan means that the machine is what it shall be.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from doctor.provision.extras import extra_steps, known_paths
from doctor.provision.goal import PROCESS, USER, Goal, digest_of, goal_text
from doctor.provision.npu.goals import stuck as npu_stuck
from doctor.provision.release_steps import (
    container_engine_steps,
    image_steps,
    library_steps,
    model_steps,
    python_steps,
    release_steps,
)
from doctor.provision.step import NONE, FileDiff, Step
from doctor.provision.survey import State
from doctor.provision.variables import (
    Means,
    applied_file,
    service_variables,
    verify_variables,
)


class Plan(Struct, frozen=True, kw_only=True):
    """Steps in order.

    `blockers` are what a person must settle first; `inputs` hashes all that the plan was
    made from.
    """

    target: str
    goal: Goal
    steps: tuple[Step, ...]
    blockers: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    inputs: str = ""

    @property
    def is_empty(self) -> bool:
        """True if nothing is to be done."""
        return not self.steps and not self.blockers


def make_plan(
    target: str, goal: Goal, state: State, means: Means, blockers: tuple[str, ...] = ()
) -> Plan:
    """The steps from a state to a goal. `means.libraries` are packages that the system lacks."""
    stuck = (*blockers, *_stuck(goal, state))
    steps = (*_settling(goal, state), *_steps(goal, state, means))
    observed = msgspec.json.encode(_relevant(state), order="deterministic").decode()
    inputs = digest_of(target, goal_text(goal), observed, msgspec.json.encode(means).decode())
    return Plan(
        target=target, goal=goal, steps=steps, blockers=stuck, notes=_notes(goal), inputs=inputs
    )


def _steps(goal: Goal, state: State, means: Means) -> tuple[Step, ...]:
    if goal.driver is not None:
        from doctor.provision.driver.steps import driver_steps

        return driver_steps(goal, state)
    if goal.npu is not None:
        from doctor.provision.npu.steps import npu_steps

        return npu_steps(goal, state)
    return (_removal if goal.is_nothing else _installation)(goal, state, means)


def _relevant(state: State) -> dict[str, Any]:
    """What of a state decides the steps: not free space, nor process numbers."""
    return {
        "releases": state.releases,
        "current": state.current,
        "damage": state.damage,
        "files": state.files,
        "pythons": state.pythons,
        "models": state.models,
        "image": state.image,
        "container": state.container,
        "running": sorted((p.argv, p.config) for p in state.processes),
        "uid": state.uid,
        "driver": state.driver.relevant if state.driver else None,
        "npu": state.npu.relevant if state.npu else None,
        "unsettled": state.unsettled,
        "timers": state.timers,
    }


def _stuck(goal: Goal, state: State) -> list[str]:
    found = list(npu_stuck(goal, state.npu))
    is_service = goal.npu is None and goal.driver is None
    if is_service and goal.scope != USER and state.uid != 0:
        found.append("a system service needs root on that machine: use --user, or become root")
    for file in goal.files:
        there = state.files.get(file.path)
        if there is not None and there.text is None:
            found.append(
                f"{file.path} is there and is no regular file: look at it and move it away"
            )
    faults = state.models.get(goal.model.path, ()) if goal.model else ()
    if faults and goal.model and not goal.model.source:
        found.append(f"the model at {goal.model.path} is not complete: {faults[0]}")
    return found


def _notes(goal: Goal) -> tuple[str, ...]:
    if goal.supervisor == PROCESS and not goal.is_nothing:
        return ("without systemd the engine is watched by a process and not started at boot",)
    return ()


def _settling(goal: Goal, state: State) -> tuple[Step, ...]:
    if goal.scope == USER or not state.unsettled:
        return ()
    step = Step(
        name="settle_packages",
        role="python_env",
        title=f"let dpkg finish what was interrupted: {', '.join(state.unsettled[:5])}",
        reason="the package database is not whole, and nothing can be installed so",
        risk="small: packages that are half there are completed, none is removed",
        undo=NONE,
        variables={"python_env_settle": True},
    )
    return (step,)


def _removal(goal: Goal, state: State, means: Means) -> tuple[Step, ...]:
    others = known_paths(goal, state)
    there = [p for p, file in state.files.items() if file is not None and p not in others]
    if not there and not state.processes and not state.current:
        return ()
    step = Step(
        name="remove_service",
        role="service",
        title=f"stop {goal.profile} and take its files away",
        reason="it was not there before",
        risk="clients of the service lose it",
        downtime="for good",
        services=(goal.unit or goal.profile,),
        diffs=tuple(FileDiff(p, _text(state, p), None) for p in there),
        variables=service_variables(goal, "absent", means, there),
    )
    return (*extra_steps(goal, state), step)


def _installation(goal: Goal, state: State, means: Means) -> tuple[Step, ...]:
    steps = [
        *library_steps(means),
        *python_steps(goal, means),
        *container_engine_steps(goal, means),
        *(image_steps if goal.container else release_steps)(goal, state, means),
        *model_steps(goal, state, means),
        *_service(goal, state, means),
        *extra_steps(goal, state),
    ]
    if steps:
        steps.append(
            Step(
                name="verify",
                role="verify",
                title="ask the machine, then the engine for a known answer",
                reason="only an answer proves a service",
                variables=verify_variables(goal, means),
            )
        )
    return tuple(steps)


def _service(goal: Goal, state: State, means: Means) -> list[Step]:
    wanted = (*goal.files, applied_file(goal))
    diffs = [
        FileDiff(file.path, _text(state, file.path), file.text)
        for file in wanted
        if not _same(file.text, file.mode, state, file.path)
    ]
    known = {file.path for file in wanted} | known_paths(goal, state)
    extra = [p for p, file in state.files.items() if p not in known and file is not None]
    diffs += [FileDiff(path, _text(state, path), None) for path in extra]
    reasons = [_difference(diff) for diff in diffs]
    if goal.release is not None and state.current != goal.release.name:
        reasons.append(f"current is {state.current or 'not there'}")
    again = []
    if state.damage and goal.release is not None and state.current == goal.release.name:
        again.append("its release is made again")
    if goal.container is not None and state.runs(goal):
        again += [f"its container: {fault}" for fault in state.container[:1]]
    reasons += [*again, *_not_running(goal, state)]
    if not reasons:
        return []
    runs = any(p.config for p in state.processes)
    return [
        Step(
            name="switch_service",
            role="service",
            title=f"put {goal.profile} on releases/{goal.release.name if goal.release else ''}",
            reason="; ".join(reasons),
            risk="requests in flight end with the old engine" if runs else "none: nothing runs yet",
            downtime=f"up to {goal.stop_s} s to stop, {goal.start_s} s to start" if runs else "",
            services=(goal.unit or goal.profile,),
            diffs=tuple(diffs),
            variables=service_variables(goal, "present", means, extra, again=bool(again)),
        )
    ]


def _difference(diff: FileDiff) -> str:
    if diff.after is None:
        return f"{diff.path} is not wanted"
    return f"{diff.path} is {'not there' if diff.before is None else 'another'}"


def _not_running(goal: Goal, state: State) -> list[str]:
    if not state.runs(goal):
        running = any(p.config for p in state.processes)
        return ["the engine runs with other settings" if running else "the engine does not run"]
    if goal.supervisor == PROCESS and not state.is_watched:
        return ["nobody watches the engine"]
    if goal.supervisor != PROCESS and state.unit.get("UnitFileState") != "enabled":
        return ["its unit is not enabled"]
    return []


def _same(text: str, mode: int, state: State, path: str) -> bool:
    there = state.files.get(path)
    return there is not None and there.text == text and there.mode == mode


def _text(state: State, path: str) -> str | None:
    there = state.files.get(path)
    return there.text if there else None
