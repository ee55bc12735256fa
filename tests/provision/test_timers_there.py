"""Timers and monitoring of a real service under systemd: they run, they see, they go again."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.provision.machine import Machine, checkout, fresh_machine
from tests.provision.sandbox import Sandbox

pytestmark = [pytest.mark.slow, pytest.mark.docker]

HOME = "/opt/doctor/demo"
TEXTFILES = "/var/lib/prometheus/node-exporter"
WANTED = """\
restart_timer: {at: '03:00', drain_s: 5}
drift_timer: {at: '04:00'}
monitoring: {metrics: true, node_exporter: true}
"""


@pytest.fixture
def debian(tmp_path: Path) -> Iterator[Machine]:
    with fresh_machine(tmp_path) as found:
        yield found


def test_laid_run_seen_and_taken_away(box: Sandbox, debian: Machine) -> None:
    plain = box.profile()
    profile = box.home / "demo.yaml"
    profile.write_text(plain.read_text() + WANTED)
    applied = box.apply_on(debian.by_docker, profile)
    assert applied.status == 0, applied.err
    assert "nothing to do" in box.apply_on(debian.by_docker, profile).out
    assert box.run_on(debian.by_docker, "drift", profile).status == 0
    waiting = debian.run("systemctl", "list-timers", "--all", "--no-pager")
    assert "doctor-demo-restart.timer" in waiting
    assert "doctor-demo-drift.timer" in waiting

    _restarts(debian)
    _sees_drift(box, debian, profile)

    less = box.apply_on(debian.by_docker, plain)
    assert less.status == 0, less.err
    assert debian.status("sh", "-c", "ls /etc/systemd/system | grep demo-")[0] != 0
    assert debian.status("sh", "-c", f"ls {TEXTFILES} | grep doctor")[0] != 0
    assert "demo-" not in debian.run("systemctl", "list-timers", "--all", "--no-pager")
    assert box.run_on(debian.by_docker, "drift", plain).status == 0

    back = box.run_on(debian.by_docker, "rollback", plain)
    assert back.status == 0, back.err
    assert box.run_on(debian.by_docker, "drift", plain).status == 0
    assert debian.run("systemctl", "is-enabled", "doctor-demo-drift.timer").strip() == "enabled"


def test_the_machine_is_judged_each_day_by_the_doctor_that_is_there(
    box: Sandbox, tmp_path: Path
) -> None:
    profile = box.profile()
    profile.write_text(profile.read_text() + "check_timer: {}\nmonitoring: {metrics: true}\n")
    with fresh_machine(tmp_path, *checkout(box.home, box.wheels)) as here:
        words = (sys.executable, "-m", "doctor", "apply", str(profile), "--yes", *box._files)
        status, said = here.status(*words)
        assert status == 0, said
        waiting = here.run("systemctl", "list-timers", "--all", "--no-pager")
        assert "doctor-demo-check.timer" in waiting
        here.run("systemctl", "start", "doctor-demo-check.service")
        assert 'verdict="pass"} 1' in here.run("cat", f"{HOME}/metrics/check.prom")
        # The node exporter is another account.
        assert here.run("stat", "-c", "%a", f"{HOME}/metrics/check.prom").strip() == "644"


def _restarts(debian: Machine) -> None:
    show = ("systemctl", "show", "-p", "MainPID", "--value", "doctor-demo.service")
    before = debian.run(*show)
    debian.run("systemctl", "start", "doctor-demo-restart.service")
    assert debian.run(*show) != before
    said = debian.run("journalctl", "-u", "doctor-demo-restart.service", "--no-pager")
    assert "no request is at work" in said


def _sees_drift(box: Sandbox, debian: Machine, profile: Path) -> None:
    check = ("systemctl", "start", "doctor-demo-drift.service")
    debian.run(*check)
    metrics = f"{TEXTFILES}/doctor-demo-drift.prom"
    assert 'doctor_drift_differences{profile="demo"} 0' in debian.run("cat", metrics)
    debian.run("tee", "-a", f"{HOME}/drain.json", text=" ")
    debian.run("systemctl", "stop", "doctor-demo-restart.timer")
    assert debian.status(*check)[0] != 0
    assert 'doctor_drift{profile="demo",kind="timer"} 1' in debian.run("cat", metrics)
    assert 'doctor_drift{profile="demo",kind="file"} 1' in debian.run("cat", metrics)
    answer = box.run_on(debian.by_docker, "drift", profile, "--format", "json")
    assert {row["kind"] for row in answer.json["differences"]} == {"file", "timer"}
    mended = box.apply_on(debian.by_docker, profile)
    assert mended.status == 0, mended.err
    debian.run(*check)
    get = "import urllib.request as u;print(u.urlopen('http://127.0.0.1:9100/metrics').read().decode())"
    assert "doctor_drift_differences" in debian.run("python3", "-c", get)
