"""What a run keeps: where it goes, where it came from, by what means. Written before it begins."""

from __future__ import annotations

import msgspec

from doctor.errors import ProvisionError
from doctor.provision.goal import Goal, ManagedFile, digest_of, goal_text, parse_goal
from doctor.provision.journal import MOVE_AWAY, read_text, write_durably
from doctor.provision.plan import Plan
from doctor.provision.runs import SEAL, Run
from doctor.provision.survey import State
from doctor.provision.variables import Means

ASKED, GOAL, BEFORE = "run.json", "goal.json", "before.json"
PLAN, MEANS = "plan.json", "means.json"


def goal_before(goal: Goal, state: State) -> Goal:
    """What was there: the goal that was applied last, with the files as they really were."""
    if goal.driver is not None:
        from doctor.provision.driver.before import driver_before

        return driver_before(goal, state)
    if goal.npu is not None and state.npu is not None:
        from doctor.provision.npu.goals import npu_before

        return msgspec.structs.replace(goal, npu=npu_before(goal, state.npu), version="")
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
    """Write down what a run is about, before it begins; what was asked comes last.

    With it stand the hashes of what a resumed run goes by.
    """
    texts = {GOAL: goal_text(plan.goal), BEFORE: goal_text(before), MEANS: _json(means)}
    for name, text in {**texts, PLAN: _json(plan)}.items():
        write_durably(run.folder / name, text)
    noted = {**asked, **{name: digest_of(text) for name, text in texts.items()}}
    seal = digest_of(*noted, *noted.values())
    write_durably(run.folder / ASKED, _json({**noted, SEAL: seal}))


def noted_goal(run: Run, name: str) -> Goal:
    """The goal of a run, or the one before it. Raises ProvisionError."""
    return parse_goal(_noted(run, name), str(run.folder / name))


def noted_means(run: Run) -> Means:
    """The means of a run. Raises ProvisionError."""
    try:
        return msgspec.json.decode(_noted(run, MEANS), type=Means)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as fault:
        raise ProvisionError(f"{run.folder / MEANS} is damaged: {fault}", MOVE_AWAY) from None


def _noted(run: Run, name: str) -> str:
    """The text as it was noted. What changed since would be carried out as if it were asked."""
    text = read_text(run.folder / name)
    if digest_of(text) != run.asked.get(name, digest_of(text)):
        raise ProvisionError(f"{run.folder / name} is damaged: its hash has changed", MOVE_AWAY)
    return text


def _json(value: object) -> str:
    return msgspec.json.format(msgspec.json.encode(value), indent=1).decode() + "\n"
