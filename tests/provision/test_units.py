"""What systemd itself says of the units that a service gets: how exposed each leaves it.

`systemd-analyze security` reads the files alone; no systemd has to run. Two kinds are not held:
the unit that takes a run up after a reboot applies a profile, and so may do what root may; a
client that makes its containers itself needs what hardening takes.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import msgspec
import pytest

from doctor.matrix import load_matrix
from doctor.profile.read import find_profile
from doctor.profile.schema import CheckTimer, DriftTimer, RestartTimer, Service
from doctor.provision.goal import SYSTEM, USER, Container
from doctor.provision.timers import Place, timers_of
from doctor.provision.unit import Kind, unit_text

# A user's manager has no folders, devices or rights that it could take away.
CEILING = {SYSTEM: 4.0, USER: 7.0}
HOME = "/opt/doctor/vllm-cpu"
_SCORE = re.compile(r"Overall exposure level for \S+: (\d+\.\d)")


def _timed(place: Place) -> dict[str, str]:
    """The services that timers start."""
    row = load_matrix().launch("vllm-cpu", None)
    assert row is not None
    wanted = msgspec.structs.replace(
        find_profile("vllm-cpu"),
        restart_timer=RestartTimer(at="03:30"),
        drift_timer=DriftTimer(at="04:30"),
        check_timer=CheckTimer(at="05:30"),
    )
    extra = timers_of(wanted, row, place)
    assert extra is not None
    return {
        file.path.rpartition("-")[2]: file.text
        for file in extra.files
        if file.path.endswith(".service")
    }


_PYTHON = "/venv/bin/python"
UNITS = {
    (SYSTEM, "engine.service"): unit_text(HOME, Service(), "SIGINT", Kind(True, "doctor")),
    (SYSTEM, "box.service"): unit_text(HOME, Service(), "SIGINT", Kind(True, is_container=True)),
    (USER, "engine.service"): unit_text(HOME, Service(), "SIGINT", Kind()),
    (USER, "box.service"): unit_text(HOME, Service(), "SIGINT", Kind(is_container=True)),
    **{
        (scope, name): text
        for scope, folder in ((SYSTEM, "/etc/systemd/system"), (USER, "/home/u/units"))
        for name, text in _timed(Place(HOME, folder, scope, _PYTHON)).items()
    },
}


@pytest.mark.real
@pytest.mark.parametrize(("scope", "name"), UNITS, ids=" ".join)
def test_a_service_may_do_little(scope: str, name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(UNITS[scope, name])
    command = ["systemd-analyze", "security", "--offline=true", "--no-pager", f"./{name}"]
    told = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert not told.stderr.strip(), "systemd understands every line"
    score = _SCORE.search(told.stdout)
    assert score, told.stdout
    assert float(score[1]) <= CEILING[scope]
    print(scope, name, score[1])


def test_accelerators_stay_within_reach() -> None:
    text = UNITS[SYSTEM, "engine.service"]
    for closing in ("PrivateDevices", "DeviceAllow", "ProtectClock", "MemoryDenyWriteExecute"):
        assert closing not in text


@pytest.mark.parametrize("is_system", [True, False])
def test_a_client_that_makes_containers_itself_keeps_its_means(is_system: bool) -> None:
    kind = Kind(is_system, is_container=True, is_held=False)
    scope = SYSTEM if is_system else USER
    timed = _timed(Place(HOME, "/units", scope, _PYTHON, is_client_held=False))
    for text in (unit_text(HOME, Service(), "SIGINT", kind), timed["drift.service"]):
        for closing in ("NoNewPrivileges", "ProtectSystem", "RestrictNamespaces", "SystemCall"):
            assert closing not in text
    assert "NoNewPrivileges" in timed["restart.service"]


@pytest.mark.parametrize(("client", "own"), [
    (("/usr/bin/docker",), False), (("/usr/bin/docker", "--host", "unix:///x"), False),
    (("/usr/bin/podman",), True),
])  # fmt: skip
def test_which_client_is_its_own_engine(client: tuple[str, ...], own: bool) -> None:
    assert Container(client, "name", "image").is_own_engine is own
