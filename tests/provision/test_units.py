"""What systemd itself says of the units that a service gets: how exposed each leaves it.

`systemd-analyze security` reads the files alone; no systemd has to run. Two units are not held:
the one that takes a run up after a reboot applies a profile, and so may do what root may; the
look for drift did not work so held.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import msgspec
import pytest

from doctor.matrix import load_matrix
from doctor.profile.read import find_profile
from doctor.profile.schema import CheckTimer, RestartTimer, Service
from doctor.provision.goal import SYSTEM
from doctor.provision.timers import Place, timers_of
from doctor.provision.unit import Kind, unit_text

CEILING = 4.0
HOME = "/opt/doctor/vllm-cpu"
_SCORE = re.compile(r"Overall exposure level for \S+: (\d+\.\d)")


def _timed() -> dict[str, str]:
    """The services that timers start."""
    row = load_matrix().launch("vllm-cpu", None)
    assert row is not None
    wanted = msgspec.structs.replace(
        find_profile("vllm-cpu"),
        restart_timer=RestartTimer(at="03:30"),
        drift_timer=None,
        check_timer=CheckTimer(at="05:30"),
    )
    extra = timers_of(wanted, row, Place(HOME, "/etc/systemd/system", SYSTEM, "/venv/bin/python"))
    assert extra is not None
    return {
        file.path.rpartition("/")[2]: file.text
        for file in extra.files
        if file.path.endswith(".service")
    }


UNITS = {
    "engine.service": unit_text(HOME, Service(), "SIGINT", Kind(True, "doctor")),
    "container.service": unit_text(HOME, Service(), "SIGINT", Kind(True, is_container=True)),
    **_timed(),
}


@pytest.mark.real
@pytest.mark.parametrize("name", UNITS)
def test_a_service_may_do_little(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(UNITS[name])
    command = ["systemd-analyze", "security", "--offline=true", "--no-pager", f"./{name}"]
    told = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert not told.stderr.strip(), "systemd understands every line"
    score = _SCORE.search(told.stdout)
    assert score, told.stdout
    assert float(score[1]) <= CEILING
    print(name, score[1])


def test_accelerators_stay_within_reach() -> None:
    text = UNITS["engine.service"]
    for closing in ("PrivateDevices", "DeviceAllow", "ProtectClock", "MemoryDenyWriteExecute"):
        assert closing not in text
