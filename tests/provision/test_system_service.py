"""A real engine as a systemd service of a fresh Debian, by docker exec and by ssh."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.provision.machine import Machine, fresh_machine
from tests.provision.sandbox import Sandbox

pytestmark = [pytest.mark.slow, pytest.mark.docker]

UNIT = "doctor-demo.service"


@pytest.fixture(scope="module")
def debian(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    folder = tmp_path_factory.mktemp("machine")
    with fresh_machine(folder) as found:
        yield found


def test_applied_restarted_drifted_taken_back(box: Sandbox, debian: Machine) -> None:
    profile = box.profile()
    first = box.apply_on(debian.by_docker, profile)
    assert first.status == 0, first.err
    assert debian.run("systemctl", "is-enabled", UNIT).strip() == "enabled"
    assert debian.run("systemctl", "show", "-p", "User", "--value", UNIT).strip() == "doctor"

    runs = len(box.runs)
    again = box.apply_on(debian.by_ssh, profile)
    assert "nothing to do" in again.out, again.err
    assert len(box.runs) == runs
    assert again.cpu_s < 3
    assert box.run_on(debian.by_ssh, "drift", profile).status == 0

    debian.restart()
    assert _comes_up(box, debian, profile), "the engine starts at boot"

    unit = f"/etc/systemd/system/{UNIT}"
    debian.run("tee", "-a", unit, text="# by hand\n")
    debian.run("systemctl", "disable", UNIT)
    answer = box.run_on(debian.by_docker, "drift", profile, "--format", "json")
    assert {row["kind"] for row in answer.json["differences"]} == {"unit"}
    mended = box.apply_on(debian.by_docker, profile)
    assert mended.status == 0, mended.err

    other = box.apply_on(debian.by_docker, box.profile(length=1024))
    assert other.status == 0, other.err
    back = box.run_on(debian.by_docker, "rollback", profile)
    assert back.status == 0, back.err
    assert _comes_up(box, debian, profile)


def _comes_up(box: Sandbox, debian: Machine, profile: Path) -> bool:
    until = time.monotonic() + 30
    while time.monotonic() < until:
        if box.run_on(debian.by_docker, "drift", profile).status == 0:
            return True
    return False
