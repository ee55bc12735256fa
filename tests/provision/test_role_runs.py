"""Each role by itself on a fresh machine: only said, made, made again without a change, asked."""

from __future__ import annotations

import hashlib
import json
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from doctor.profile.schema import Service
from doctor.provision.goal import SYSTEM, SYSTEMD, FileRecord, Goal, ManagedFile, Model, Release
from doctor.provision.playbook import Playbook
from doctor.provision.roles import unverified_roles
from doctor.provision.target import Target, parse_target
from doctor.provision.unit import Kind, unit_text
from doctor.provision.variables import (
    Means,
    model_variables,
    release_variables,
    service_variables,
    verify_variables,
)
from doctor.resources import resource
from tests.provision.machine import Machine, fresh_machine
from tests.provision.sandbox import free_port

HOME = "/opt/doctor/demo"
PYTHON = "/usr/bin/python3"
# Run by tests of their own: they need a reboot, a container engine or a driver.
ELSEWHERE = {
    "reboot", "container_engine", "engine_container", "nvidia_driver", "driver_hold",
    "repositories", "hook", "persistence", "fabric_manager", "nvidia_container_toolkit", "dcgm",
    "ascend_note",
}  # fmt: skip
HERE = ("python_env", "engine_venv", "model", "service", "timers", "monitoring", "verify")
TIMER = """\
[Timer]
OnCalendar=*-*-* 04:00:00
[Install]
WantedBy=timers.target
"""


def test_every_role_is_run_somewhere_or_says_that_it_is_not() -> None:
    roles = {path.name for path in resource("playbooks", "roles").iterdir() if path.is_dir()}
    assert roles == {*HERE, *ELSEWHERE, *unverified_roles()}


@pytest.fixture(scope="module")
def debian(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    pytest.importorskip("ansible_runner")
    folder = tmp_path_factory.mktemp("roles")
    with fresh_machine(folder) as found:
        yield found


def _wheel(folder: Path) -> str:
    """A package of one module, and its line in requirements."""
    folder.mkdir()
    path = folder / "tiny-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("tiny.py", "")
        archive.writestr("tiny-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: tiny\n"
                         "Version: 1.0\n")  # fmt: skip
        archive.writestr("tiny-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nGenerator: x\n"
                         "Root-Is-Purelib: true\nTag: py3-none-any\n")  # fmt: skip
        archive.writestr("tiny-1.0.dist-info/RECORD", "tiny.py,,\n")
    return f"tiny==1.0 --hash=sha256:{hashlib.sha256(path.read_bytes()).hexdigest()}\n"


def _goal(folder: Path) -> Goal:
    port = free_port()
    argv = (f"{HOME}/current/venv/bin/python", "-m", "http.server", "--bind", "127.0.0.1",
            str(port))  # fmt: skip
    config = {
        "argv": argv, "env": {}, "secrets": {}, "home": HOME, "folder": f"{HOME}/work",
        "log": f"{HOME}/log/engine.log", "stop_signal": "SIGTERM", "stop_s": 5,
        "restart": "no", "release": "r1",
    }  # fmt: skip
    unit = unit_text(HOME, Service(), "SIGTERM", Kind(is_system=True, account="doctor"))
    (folder / "m.gguf").write_bytes(b"GGUF")
    record = FileRecord(4, hashlib.sha256(b"GGUF").hexdigest())
    return Goal(
        profile="demo", home=HOME, scope=SYSTEM, supervisor=SYSTEMD, unit="doctor-demo.service",
        account="doctor", argv=argv, url=f"http://127.0.0.1:{port}", health="/", start_s=20,
        release=Release("r1", "3.11", "x86_64", _wheel(folder / "wheels"),
                        files=(ManagedFile("stack.lock", "{}\n"),)),
        model=Model(f"{HOME}/model/m.gguf", {"": record}, str(folder / "m.gguf")),
        files=(ManagedFile(f"{HOME}/service.json", json.dumps(config)),
               ManagedFile("/etc/systemd/system/doctor-demo.service", unit)),
    )  # fmt: skip


def _steps(folder: Path) -> dict[str, dict[str, Any]]:
    goal = _goal(folder)
    # Alone: all of that folder is carried over, and the logs of the roles lie beside it.
    means = Means(python=PYTHON, wheels=str(folder / "wheels"), copy_wheels=True)
    unit = "/etc/systemd/system/doctor-demo-x"
    timer = {"path": f"{unit}.timer", "text": TIMER, "mode": 0o644}
    oneshot = "[Service]\nType=oneshot\nExecStart=/bin/true\n"
    job = {"path": f"{unit}.service", "text": oneshot, "mode": 0o644}
    rules = {"path": f"{HOME}/monitoring/alerts.yml", "text": "groups: []\n", "mode": 0o644}
    assert goal.model is not None
    return {
        "python_env": {"python_env_packages": ["libgomp1"]},
        "engine_venv": release_variables(goal, means),
        "model": model_variables(goal.model, means),
        "service": service_variables(goal, "present", means, []),
        "timers": {"timers_home": HOME, "timers_files": [timer, job],
                   "timers_units": ["doctor-demo-x.timer"]},
        "monitoring": {"monitoring_home": HOME, "monitoring_name": "demo",
                       "monitoring_files": [rules], "monitoring_node_exporter": True,
                       "monitoring_textfiles": ["drift.prom"]},
        "verify": verify_variables(goal, means),
    }  # fmt: skip


# Asked of the machine itself: there after the role, and not before.
MADE: dict[str, tuple[str, ...]] = {
    "python_env": ("dpkg", "-s", "libgomp1"),
    "engine_venv": (f"{HOME}/releases/r1/venv/bin/python", "-c", "import tiny"),
    "model": ("grep", "-q", "GGUF", f"{HOME}/model/m.gguf"),
    "service": ("systemctl", "is-active", "doctor-demo.service"),
    "timers": ("systemctl", "is-active", "doctor-demo-x.timer"),
    "monitoring": ("test", "-L", "/var/lib/prometheus/node-exporter/doctor-demo-drift.prom"),
}


@pytest.mark.heavy
@pytest.mark.docker
def test_said_made_and_made_again(debian: Machine, tmp_path: Path) -> None:
    steps = _steps(tmp_path)
    assert tuple(steps) == HERE
    target = parse_target(debian.by_docker[1])
    for role, variables in steps.items():
        _run(role, variables, target, debian, tmp_path)
    extra = ["/etc/systemd/system/doctor-demo-x.timer", "/etc/systemd/system/doctor-demo-x.service"]
    gone = {"timers_home": HOME, "timers_remove": extra}
    _changes_then_not(Playbook(target, tmp_path / "gone"), "timers", gone)
    assert debian.status(*MADE["timers"])[0] != 0
    files = [f"{HOME}/service.json", "/etc/systemd/system/doctor-demo.service"]
    absent = {**steps["service"], "service_state": "absent", "service_files": []}
    absent["service_remove"] = files
    _changes_then_not(Playbook(target, tmp_path / "gone"), "service", absent)
    assert debian.status(*MADE["service"])[0] != 0


def _run(
    role: str, variables: dict[str, Any], target: Target, debian: Machine, folder: Path
) -> None:
    if role not in MADE:
        result = Playbook(target, folder / role).play(role, role, variables)
        assert (result.failure, result.changed) == ("", 0)
        return
    assert debian.status(*MADE[role])[0] != 0, f"{role}: there beforehand"
    said = Playbook(target, folder / "check", check=True).play(role, role, variables)
    assert said.failure == "", f"{role} in check mode: {said.failure}"
    assert said.changed or role == "python_env", f"{role} says that it would change nothing"
    assert debian.status(*MADE[role])[0] != 0, f"{role}: made in check mode"
    _changes_then_not(Playbook(target, folder / role), role, variables)
    assert debian.status(*MADE[role])[0] == 0, f"{role}: not there"


def _changes_then_not(book: Playbook, role: str, variables: dict[str, Any]) -> None:
    for changes in (True, False):
        result = book.play(role, role, variables)
        assert result.failure == "", f"{role}: {result.failure}"
        assert bool(result.changed) == changes, f"{role}: {result.changed} changes"
