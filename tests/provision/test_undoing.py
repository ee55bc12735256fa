"""What is undone when a run, or its undoing, was interrupted. No Ansible: nothing is there."""

from __future__ import annotations

from pathlib import Path

import pytest

from doctor.errors import UsageError
from doctor.matrix import load_matrix
from doctor.provision.goal import Goal
from doctor.provision.journal import APPLIED, BEGIN, ROLLED_BACK, STEP
from doctor.provision.noted import note_run
from doctor.provision.plan import make_plan
from doctor.provision.runs import SYSTEM_STATE, Run, Runs
from doctor.provision.session import Desk
from doctor.provision.target import LOCAL, Target
from tests.provision.made import MEANS, bare_state, make_goal

pytestmark = pytest.mark.real
SERVICE = f"{LOCAL}/demo"


def _interrupted(runs: Runs, goal: Goal, before: Goal, verb: str, **asked: str) -> Run:
    run = runs.create()
    plan = make_plan(LOCAL, goal, bare_state(goal), MEANS)
    words = {"verb": verb, "service": SERVICE, "profile": "demo", "target": LOCAL, **asked}
    note_run(run, plan, before, MEANS, words)
    run.journal.write(BEGIN)
    run.journal.write(STEP, plan.steps[0].name if plan.steps else "remove_service")
    return run


def test_a_rollback_that_was_interrupted_is_taken_up_and_not_undone(tmp_path: Path) -> None:
    wanted = make_goal(home=str(tmp_path / "home"))
    nothing = Goal(profile="demo", home=wanted.home)
    runs = Runs(tmp_path)
    old = _interrupted(runs, wanted, nothing, "apply")
    back = _interrupted(runs, nothing, wanted, "rollback", of=old.name)
    outcome = Desk(runs, load_matrix()).rollback(Target(), "demo")
    assert (outcome.end, outcome.run) == (APPLIED, back.name)
    assert (back.journal.end, old.journal.end) == (APPLIED, ROLLED_BACK)
    assert runs.unfinished(SERVICE) is None
    assert len(runs.all()) == 2
    assert not (tmp_path / "home").exists()


def test_an_interrupted_run_is_undone_by_a_run_of_its_own(tmp_path: Path) -> None:
    wanted = make_goal(home=str(tmp_path / "home"))
    runs = Runs(tmp_path)
    old = _interrupted(runs, wanted, Goal(profile="demo", home=wanted.home), "apply")
    outcome = Desk(runs, load_matrix()).rollback(Target(), "demo")
    assert (outcome.end, old.journal.end) == (APPLIED, ROLLED_BACK)
    assert outcome.run != old.name
    assert runs.unfinished(SERVICE) is None


@pytest.mark.parametrize(
    ("state", "other"), [(SYSTEM_STATE, "with"), ("/home/a/doctor", "without")]
)
def test_where_else_runs_are_kept_is_said(state: str, other: str) -> None:
    with pytest.raises(UsageError) as caught:
        Desk(Runs(Path(state)), load_matrix())._to_undo(f"{LOCAL}/nosuch", "")
    assert f"ask {other} --user" in caught.value.hint
