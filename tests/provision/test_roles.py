"""The roles as files: what they may not contain, and that the plan says what they ask for."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from doctor.provision.plan import Plan, make_plan
from doctor.provision.roles import unverified_roles, with_unverified
from doctor.provision.step import Step
from doctor.resources import resource
from tests.provision.made import MEANS, bare_state, make_goal, state_of, with_extras

ROLES = sorted(path.name for path in resource("playbooks", "roles").iterdir())
FORBIDDEN = {"shell", "raw", "script", "expect", "win_shell", "win_command"}
TYPES: dict[str, type | tuple[type, ...]] = {
    "str": str, "path": str, "bool": bool, "int": int, "list": list, "dict": dict,
}  # fmt: skip


def read(path: Path) -> Any:
    return yaml.safe_load(path.read_text())


def tasks(role: str) -> Iterator[tuple[Path, dict[str, Any]]]:
    for path in sorted(resource("playbooks", "roles", role).glob("*/*.yml")):
        if path.parent.name in ("tasks", "handlers"):
            for task in read(path):
                yield path, task
                for block in ("block", "rescue", "always"):
                    yield from ((path, inner) for inner in task.get(block, []))


def specs(role: str) -> dict[str, Any]:
    path = resource("playbooks", "roles", role, "meta", "argument_specs.yml")
    options: dict[str, Any] = read(path)["argument_specs"]["main"].get("options", {})
    return options


@pytest.mark.parametrize("role", ROLES)
def test_no_shell_and_no_free_form_command(role: str) -> None:
    for path, task in tasks(role):
        modules = {name.rpartition(".")[2]: value for name, value in task.items()}
        assert not FORBIDDEN & modules.keys(), f"{path}: {task['name']}"
        if "command" in modules:
            assert set(modules["command"]) <= {"argv", "creates", "removes", "chdir", "stdin"}, path
            assert "argv" in modules["command"], path


@pytest.mark.parametrize("role", ROLES)
def test_modules_are_named_in_full(role: str) -> None:
    for path, task in tasks(role):
        named = [name for name in task if "." in name]
        assert named, path
        assert all(n.startswith("ansible.builtin.") for n in named), path
        assert task["name"][0].isupper(), path


@pytest.mark.parametrize("role", ROLES)
def test_options_carry_the_roles_name_and_a_description(role: str) -> None:
    for name, option in specs(role).items():
        assert name.startswith(f"{role}_")
        assert option["description"]
        assert option.get("required") or "default" in option, name


def test_the_plan_says_what_the_roles_ask_for() -> None:
    goal = with_extras(make_goal())
    made = make_plan("local", goal, bare_state(goal), MEANS).steps
    assert {"timers", "monitoring"} <= {step.role for step in made}
    nothing = make_goal(release=None, files=(), model=None)
    removed = make_plan("local", nothing, state_of(goal), MEANS).steps
    for step in (*made, *removed):
        options = specs(step.role)
        assert step.variables.keys() <= options.keys(), step.name
        assert {n for n, o in options.items() if o.get("required")} <= step.variables.keys()
        for name, value in step.variables.items():
            assert isinstance(value, TYPES[options[name]["type"]]), name
            choices = options[name].get("choices")
            assert not choices or value in choices, name


def test_roles_that_nothing_here_could_run_say_so_in_the_plan_and_the_docs() -> None:
    page = (resource("playbooks").parent / "docs/support.md").read_text()
    for role in ROLES:
        assert (role in unverified_roles()) == (f"the role {role} " in page)
    step = Step(name="x", role=next(iter(unverified_roles()), "none"), title="", reason="")
    plan = Plan(target="local", goal=make_goal(), steps=(step,))
    noted = with_unverified(plan).notes
    assert bool(noted) == bool(unverified_roles())


def test_every_planned_role_is_there() -> None:
    goal = make_goal()
    roles = {s.role for s in make_plan("local", goal, bare_state(goal), MEANS).steps}
    assert roles <= set(ROLES)
    assert set(read(resource("playbooks", "site.yml"))[0]["tasks"][0]) >= {"loop"}
