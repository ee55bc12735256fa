"""Goals and states for tests of the planner."""

from __future__ import annotations

from typing import Any

import msgspec

from doctor.provision.goal import Extra, FileRecord, Goal, ManagedFile, Model, Release, goal_text
from doctor.provision.survey import FileState, ServiceProcess, State
from doctor.provision.variables import Means, applied_file

HOME = "/home/u/.local/share/doctor/demo"
MEANS = Means(python="/usr/bin/python3", wheels="/cache", uv="/usr/bin/uv", fetched=True)
RELEASE = Release("aaaa", "3.11", "x86_64-manylinux_2_28", "engine==1.0 --hash=sha256:00\n")
MODEL = Model(f"{HOME}/model/m.gguf", {"": FileRecord(3, "0" * 64)}, "/src/m.gguf")


def make_goal(**changes: Any) -> Goal:
    """A service of a user without systemd."""
    goal = Goal(
        profile="demo",
        home=HOME,
        release=RELEASE,
        model=MODEL,
        files=(ManagedFile(f"{HOME}/service.json", "{}\n"),),
        argv=("/engine", "--port", "1"),
        engine="xllamacpp",
        version="1.0",
        url="http://127.0.0.1:1",
    )
    return msgspec.structs.replace(goal, **changes)


EXTRAS = (
    Extra(
        "timers",
        (ManagedFile("/units/demo.service", "s\n"), ManagedFile("/units/demo.timer", "t\n")),
        ("demo.timer",),
    ),
    Extra(
        "monitoring",
        (ManagedFile(f"{HOME}/monitoring/alerts.yml", "a\n"),),
        (),
        {
            "monitoring_name": "demo",
            "monitoring_node_exporter": False,
            "monitoring_textfiles": ["drift.prom"],
        },
    ),
)
WAITING = {"ActiveState": "active", "UnitFileState": "enabled", "NeedDaemonReload": "no"}


def with_extras(goal: Goal) -> Goal:
    """The same service with timers and files for monitoring."""
    return msgspec.structs.replace(goal, extras=EXTRAS)


def state_of(goal: Goal, **changes: Any) -> State:
    """A machine that is just what the goal wants."""
    extra = tuple(file for extra in goal.extras for file in extra.files)
    files = (*goal.files, *extra, applied_file(goal))
    model: dict[str, tuple[str, ...]] = {goal.model.path: ()} if goal.model else {}
    state = State(
        home=goal.home,
        releases=(goal.release.name,) if goal.release else (),
        current=goal.release.name if goal.release else "",
        files={file.path: FileState(file.mode, file.text) for file in files},
        models=model,
        timers={unit: WAITING for extra in goal.extras for unit in extra.units},
        applied=goal_text(goal) if goal.extras else None,
        processes=(
            ServiceProcess(10, ("/usr/bin/python3", "-I", "/run_service.py", "watch", "x")),
            ServiceProcess(11, goal.argv, goal.config_digest),
        ),
    )
    return msgspec.structs.replace(state, **changes)


def bare_state(goal: Goal) -> State:
    """A machine on which nothing is."""
    model: dict[str, tuple[str, ...]] = {}
    if goal.model:
        model[goal.model.path] = ("m.gguf: missing",)
    files: dict[str, FileState | None] = {
        file.path: None for file in (*goal.files, applied_file(goal))
    }
    return State(home=goal.home, files=files, models=model)
