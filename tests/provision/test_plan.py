"""The planner: pure, empty where nothing is to be done, honest about what it would do."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from doctor.provision.drift import compare
from doctor.provision.goal import FileRecord, Goal, ManagedFile, goal_text, parse_goal
from doctor.provision.noted import goal_before
from doctor.provision.plan import Plan, make_plan
from doctor.provision.room import needed_mib, no_room
from doctor.provision.survey import FileState, ServiceProcess, State
from doctor.provision.variables import applied_file
from tests.provision.made import HOME, MEANS, MODEL, bare_state, make_goal, state_of


def names(goal: Goal, state: State) -> list[str]:
    return [step.name for step in plan(goal, state).steps]


def plan(goal: Goal, state: State) -> Plan:
    return make_plan("local", goal, state, MEANS)


def test_nothing_to_do() -> None:
    goal = make_goal()
    assert plan(goal, state_of(goal)).is_empty
    assert compare(goal, state_of(goal, lock=None)) == []


def test_everything_to_do() -> None:
    goal = make_goal()
    found = plan(goal, bare_state(goal))
    assert [s.name for s in found.steps] == [
        "make_release", "place_model", "switch_service", "verify",
    ]  # fmt: skip
    assert all(step.undo == "exact" and step.reason and step.risk for step in found.steps)
    assert "not started at boot" in found.notes[0]


def test_what_does_not_fit_is_refused_beforehand(tmp_path: Path) -> None:
    (tmp_path / "engine.whl").write_bytes(b"x" * (10 << 20))
    means = msgspec.structs.replace(MEANS, wheels=str(tmp_path))
    goal, records = make_goal(), {"": FileRecord(500 << 20, "0" * 64)}
    goal = msgspec.structs.replace(goal, model=msgspec.structs.replace(MODEL, files=records))
    bare = bare_state(goal)
    assert needed_mib(goal, bare, means) == 540
    assert no_room(goal, msgspec.structs.replace(bare, free_mib=700), means) == []
    assert "540" not in no_room(goal, msgspec.structs.replace(bare, free_mib=600), means)[0]
    assert needed_mib(goal, state_of(goal), means) == 0
    assert no_room(goal, msgspec.structs.replace(state_of(goal), free_mib=0), means) == []


def test_packages_are_fetched_first() -> None:
    goal = make_goal()
    means = msgspec.structs.replace(MEANS, fetched=False)
    steps = make_plan("local", goal, bare_state(goal), means).steps
    assert (steps[0].name, steps[0].role) == ("fetch_packages", "")


ENGINE = ServiceProcess(11, make_goal().argv, make_goal().config_digest)
WATCHER = ServiceProcess(10, ("/usr/bin/python3", "-I", "/run_service.py", "watch", "x"))


@pytest.mark.parametrize(
    ("change", "kind", "steps"),
    [
        ({"processes": ()}, "process", ["switch_service", "verify"]),
        ({"processes": (ENGINE,)}, "watcher", ["switch_service", "verify"]),
        (
            {"processes": (WATCHER, ServiceProcess(11, ("/engine",), ENGINE.config))},
            "process",
            ["switch_service", "verify"],
        ),
        (
            {"processes": (WATCHER, ServiceProcess(11, ENGINE.argv, "0" * 64))},
            "process",
            ["switch_service", "verify"],
        ),
        ({"current": "bbbb"}, "release", ["switch_service", "verify"]),
        (
            {"damage": ("venv/bin/x: missing",)},
            "release",
            ["make_release", "switch_service", "verify"],
        ),
        (
            {"models": {f"{HOME}/model/m.gguf": ("m.gguf: another content",)}},
            "model",
            ["place_model", "verify"],
        ),
    ],
)
def test_each_drift_is_found_and_mended(
    change: dict[str, object], kind: str, steps: list[str]
) -> None:
    goal = make_goal()
    state = state_of(goal, **change)
    assert names(goal, state) == steps
    assert kind in {difference.kind for difference in compare(goal, state)}


@pytest.mark.parametrize(("mode", "text"), [(0o644, "{ }\n"), (0o600, "{}\n"), (0o666, "{}\n")])
def test_a_changed_file_is_found_and_mended(mode: int, text: str) -> None:
    goal = make_goal()
    files = {**state_of(goal).files, goal.config_path: FileState(mode, text)}
    state = state_of(goal, files=files)
    assert names(goal, state) == ["switch_service", "verify"]
    assert [d.kind for d in compare(goal, state)] == ["file"]


def test_what_is_no_file_stands_in_the_way() -> None:
    goal = make_goal()
    files = {**state_of(goal).files, goal.config_path: FileState(0o777, None)}
    assert "no regular file" in plan(goal, state_of(goal, files=files)).blockers[0]


def test_a_system_service_needs_root() -> None:
    goal = make_goal(scope="system")
    assert plan(goal, state_of(goal, uid=1000)).blockers


def test_a_model_that_lies_there_is_never_written() -> None:
    model = msgspec.structs.replace(MODEL, source="")
    goal = make_goal(model=model)
    state = state_of(goal, models={model.path: ("m.gguf: missing",)})
    assert plan(goal, state).blockers


def test_the_way_back_is_what_was_there() -> None:
    old, new = make_goal(), make_goal(argv=("/engine", "--port", "2"), version="2.0")
    edited = FileState(0o600, "by hand\n")
    state = state_of(
        old,
        files={**state_of(old).files, old.config_path: edited},
        applied=goal_text(old),
    )
    before = goal_before(new, state)
    assert (before.version, before.argv) == ("1.0", old.argv)
    assert before.files == (ManagedFile(old.config_path, "by hand\n", 0o600),)


def test_the_way_back_from_a_first_apply_is_nothing() -> None:
    goal = make_goal()
    before = goal_before(goal, bare_state(goal))
    assert before.is_nothing
    step = plan(before, state_of(goal)).steps[0]
    assert step.name == "remove_service"
    assert step.variables["service_remove"][-1].endswith("applied.json")
    assert plan(before, bare_state(goal)).is_empty


def test_files_of_another_version_are_taken_away() -> None:
    old = make_goal(files=(*make_goal().files, ManagedFile("/etc/x", "old\n")))
    state = state_of(old, applied=goal_text(old))
    step = plan(make_goal(), state).steps[0]
    assert step.variables["service_remove"] == ["/etc/x"]


def test_the_inputs_tell_states_apart() -> None:
    goal = make_goal()
    same = {plan(goal, state_of(goal, free_mib=n)).inputs for n in (1, 2)}
    other = {plan(goal, state_of(goal, current=n)).inputs for n in ("a", "b")}
    assert (len(same), len(other)) == (1, 2)


def test_goals_are_kept_whole() -> None:
    goal = make_goal()
    assert parse_goal(goal_text(goal), "x") == goal
    assert applied_file(goal).mode == 0o600
