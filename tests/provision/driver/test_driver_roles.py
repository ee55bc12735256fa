"""What the steps of a driver tell their roles is what the roles ask for."""

from __future__ import annotations

import msgspec
import pytest

from doctor.provision.driver.goals import driver_goal
from doctor.provision.driver.holding import DAEMON
from doctor.provision.driver.sets import DriverSet, DriverState
from doctor.provision.driver.steps import driver_steps
from doctor.provision.goal import ManagedFile
from doctor.provision.step import Step
from doctor.provision.survey import FileState, State
from tests.provision.driver.made import driver_set, rows, state
from tests.provision.driver.repository import suffixed
from tests.provision.test_roles import ROLES, TYPES, specs

OLD, NEW = rows(*suffixed("570.86.10")), rows(*suffixed("580.95.05"))
UNITS = ("nvidia-persistenced.service", "nvidia-fabricmanager.service", "nvidia-dcgm.service")


def steps(wanted: DriverSet, there: DriverState, daemon: str | None = None) -> tuple[Step, ...]:
    goal = driver_goal(wanted)
    source = ManagedFile("/etc/apt/sources.list.d/doctor-cuda.list", "deb ...\n")
    goal = msgspec.structs.replace(goal, files=(*goal.files, source))
    files: dict[str, FileState | None] = {DAEMON: FileState(0o644, daemon) if daemon else None}
    return driver_steps(goal, State(home=goal.home, driver=there, files=files))


SCENES = {
    "first": steps(driver_set(*NEW, units=UNITS, starts=True, builds=True), state()),
    "switch": steps(
        driver_set(*NEW, absent=tuple(p.name for p in OLD), units=UNITS),
        state(*OLD, holds=tuple(p.name for p in OLD), loaded="570.86.10"),
    ),
    "repair": steps(
        driver_set(*NEW, builds=True), state(*NEW, broken=("x",), leaving=(NEW[0].name,))
    ),
    "containers": steps(driver_set(*NEW, engine="docker"), state(), '{"log-driver": "local"}'),
}


@pytest.mark.parametrize("scene", SCENES)
def test_variables_fit_the_roles(scene: str) -> None:
    assert SCENES[scene]
    for step in SCENES[scene]:
        assert step.role in ROLES
        options = specs(step.role)
        assert step.variables.keys() <= options.keys(), step.name
        assert {n for n, o in options.items() if o.get("required")} <= step.variables.keys()
        for name, value in step.variables.items():
            assert isinstance(value, TYPES[options[name]["type"]]), name
            choices = options[name].get("choices")
            assert not choices or value in choices, name


def test_each_kind_of_step_was_among_them() -> None:
    names = {step.name for found in SCENES.values() for step in found}
    assert names == {
        "finish_packages", "fetch_packages", "lay_repositories", "release_hold", "install_driver",
        "build_module", "hold_driver", "configure_containers", "load_module",
        "enable_persistence", "enable_fabric_manager", "enable_dcgm", "verify",
    }  # fmt: skip


def test_modules_are_loaded_now_or_by_the_boot() -> None:
    first = [step.name for step in SCENES["first"]]
    assert "load_module" in first
    assert not any(step.reboots for step in SCENES["first"])
    assert "load_module" not in [step.name for step in SCENES["switch"]]
    assert [step.name for step in SCENES["switch"] if step.reboots] == ["enable_dcgm"]
