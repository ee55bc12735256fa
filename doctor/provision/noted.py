"""What a run keeps: where it goes, where it came from, by what means. Written before it begins."""

from __future__ import annotations

import msgspec

from doctor.errors import ProvisionError
from doctor.provision.goal import Goal, ManagedFile, goal_text, parse_goal
from doctor.provision.journal import write_durably
from doctor.provision.plan import Plan
from doctor.provision.runs import Run
from doctor.provision.survey import State
from doctor.provision.variables import Means

ASKED, GOAL, BEFORE = "run.json", "goal.json", "before.json"
PLAN, MEANS = "plan.json", "means.json"


def goal_before(goal: Goal, state: State) -> Goal:
    """What was there: the goal that was applied last, with the files as they really were."""
    if goal.driver is not None:
        from doctor.provision.driver.before import driver_before

        return driver_before(goal, state)
    if state.applied is None:
        bare = msgspec.structs.replace(goal, release=None, model=None, files=(), argv=(), extras=())
        return msgspec.structs.replace(bare, engine="", version="", lock="")
    applied = parse_goal(state.applied, f"{state.home}/applied.json")
    extras = tuple(
        msgspec.structs.replace(extra, files=_as_found(extra.files, state))
        for extra in applied.extras
    )
    return msgspec.structs.replace(applied, files=_as_found(applied.files, state), extras=extras)


def _as_found(files: tuple[ManagedFile, ...], state: State) -> tuple[ManagedFile, ...]:
    found = []
    for file in files:
        there = state.files.get(file.path)
        if there is not None and there.text is not None:
            found.append(msgspec.structs.replace(file, text=there.text, mode=there.mode))
    return tuple(found)


def note_run(run: Run, plan: Plan, before: Goal, means: Means, asked: dict[str, str]) -> None:
    """Write down what a run is about, before it begins; what was asked comes last."""
    write_durably(run.folder / GOAL, goal_text(plan.goal))
    write_durably(run.folder / BEFORE, goal_text(before))
    write_durably(run.folder / PLAN, _json(plan))
    write_durably(run.folder / MEANS, _json(means))
    write_durably(run.folder / ASKED, _json(asked))


def noted_goal(run: Run, name: str) -> Goal:
    """The goal of a run, or the one before it. Raises ProvisionError."""
    path = run.folder / name
    try:
        return parse_goal(path.read_text(encoding="utf-8", errors="surrogateescape"), str(path))
    except OSError as fault:
        raise ProvisionError(f"{path}: {fault.strerror}", "this run cannot be continued") from None


def noted_means(run: Run) -> Means:
    """The means of a run. Raises ProvisionError."""
    path = run.folder / MEANS
    try:
        return msgspec.json.decode(path.read_bytes(), type=Means)
    except (OSError, msgspec.MsgspecError) as fault:
        raise ProvisionError(f"{path}: {fault}", "this run cannot be continued") from None


def _json(value: object) -> str:
    return msgspec.json.format(msgspec.json.encode(value), indent=1).decode() + "\n"
