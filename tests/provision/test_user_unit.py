"""A service of an ordinary user under the user's own systemd, reached by ssh without root."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.provision.machine import Machine, fresh_machine
from tests.provision.sandbox import Sandbox

pytestmark = [pytest.mark.slow, pytest.mark.docker]

UNIT = "doctor-demo.service"
FOLDER = "/home/alice/.config/systemd/user"
WANTED = "drift_timer: {}\n"


@pytest.fixture
def alice(tmp_path: Path) -> Iterator[Machine]:
    """A machine with a user whose systemd runs without a login."""
    with fresh_machine(tmp_path) as found:
        found.run("apt-get", "update", "-qq")
        words = ("env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "install", "-y", "-qq")
        packages = ("libpam-systemd", "dbus-user-session", "libgomp1")
        found.run(*words, "--no-install-recommends", *packages)
        found.run("useradd", "-m", "-s", "/bin/sh", "alice")
        found.run("cp", "-r", "/root/.ssh", "/home/alice/")
        found.run("chown", "-R", "alice:alice", "/home/alice/.ssh")
        found.run("loginctl", "enable-linger", "alice")
        yield found


def test_applied_booted_drifted_taken_back(box: Sandbox, alice: Machine) -> None:
    on = ("--user", "--on", f"ssh://alice@127.0.0.1:{alice.port}", *alice.by_ssh[2:])
    profile = box.home / "demo.yaml"
    profile.write_text(box.profile().read_text() + WANTED)
    applied = box.apply_on(on, profile)
    assert applied.status == 0, applied.err
    assert "nothing to do" in box.apply_on(on, profile).out
    assert box.run_on(on, "drift", profile).status == 0
    assert _systemctl(alice, "is-enabled", UNIT) == (0, "enabled\n")
    show = _systemctl(alice, "show", "-p", "MainPID", "--value", UNIT)[1].strip()
    owner = alice.run("stat", "-c", "%U", f"/proc/{show}").strip()
    assert owner == "alice"
    assert "doctor-demo-drift.timer" in _systemctl(alice, "list-timers", "--all")[1]
    assert _systemctl(alice, "start", "doctor-demo-drift.service")[0] == 0

    alice.restart()
    until = time.monotonic() + 60
    while box.run_on(on, "drift", profile).status and time.monotonic() < until:
        time.sleep(0.5)
    assert box.run_on(on, "drift", profile).status == 0, "it starts at boot, without a login"

    assert _systemctl(alice, "stop", UNIT)[0] == 0
    answer = box.run_on(on, "drift", profile, "--format", "json")
    assert {row["kind"] for row in answer.json["differences"]} == {"process", "unit"}

    back = box.run_on(on, "rollback", profile)
    assert back.status == 0, back.err
    assert alice.run("find", FOLDER, "-name", "doctor-*") == ""
    assert _systemctl(alice, "is-active", UNIT)[0] != 0
    assert "doctor" not in _systemctl(alice, "list-timers", "--all")[1]


def _systemctl(machine: Machine, *words: str) -> tuple[int, str]:
    uid = machine.run("id", "-u", "alice").strip()
    runtime = f"XDG_RUNTIME_DIR=/run/user/{uid}"
    return machine.status(
        "runuser", "-u", "alice", "--", "env", runtime, "systemctl", "--user", *words
    )
