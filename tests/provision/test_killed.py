"""SIGKILL at every point of the journal: taken up again or undone, nothing is left behind."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.provision.sandbox import Sandbox

# begin, then step and done of make_release, place_model, switch_service and verify.
POINTS = range(1, 10)
VICTIMS = ("doctor", "ansible-playbook")
WAYS = ("resume", "rollback")
SAMPLE = random.Random(20261129).sample(  # noqa: S311 - any moment will do
    [(v, p, w) for v in VICTIMS for p in POINTS for w in WAYS], 3
)  # fmt: skip
ALL = [(v, p, WAYS[(p + n) % 2]) for n, v in enumerate(VICTIMS) for p in POINTS]
PATIENCE_S = 180.0


@pytest.mark.slow
@pytest.mark.parametrize(("victim", "point", "way"), SAMPLE)
def test_a_sample(box: Sandbox, victim: str, point: int, way: str) -> None:
    _kill_and_mend(box, victim, point, way)


@pytest.mark.heavy
@pytest.mark.parametrize(("victim", "point", "way"), ALL)
def test_every_point(box: Sandbox, victim: str, point: int, way: str) -> None:
    _kill_and_mend(box, victim, point, way)


@pytest.mark.slow
def test_ctrl_c_ends_ansible_first_and_can_be_taken_up(box: Sandbox) -> None:
    profile = box.profile()
    process = _applying(box, profile)
    _wait_for_entry(box, process, 2)
    time.sleep(1)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130, said
    assert not box.processes(f"DOCTOR_RUN={box.runs[-1].name}")
    assert box.run("apply", profile, "--resume").status == 0
    assert box.run("drift", profile).status == 0


def _kill_and_mend(box: Sandbox, victim: str, point: int, way: str) -> None:
    profile = box.profile()
    process = _applying(box, profile)
    _wait_for_entry(box, process, point)
    time.sleep(random.Random(point).uniform(0, 1.5))  # noqa: S311 - any moment will do
    _kill(box, process, victim)
    process.communicate(timeout=PATIENCE_S)

    ended = [row for row in _entries(box) if row["event"] == "end"]
    if not ended:
        refused = box.apply(profile)
        assert refused.status == 4
        assert "unfinished" in refused.err
        words = ("apply", profile, "--resume") if way == "resume" else ("rollback", profile)
        mended = box.run(*words)
        assert mended.status == 0, mended.err
    applied = box.run("drift", profile).status
    if way == "resume" and not ended:
        assert applied == 0
    else:
        # Undone by hand, or by doctor itself when its Ansible died: nothing is there.
        assert applied in (0, 2)
        assert applied == 0 or not box.processes(f"DOCTOR_SERVICE={box.service}")
    for run in box.runs:
        assert not box.processes(f"DOCTOR_RUN={run.name}")
    assert box.apply(profile).status == 0
    assert box.run("drift", profile).status == 0


def _applying(box: Sandbox, profile: Path) -> subprocess.Popen[str]:
    lock = ("--lock", box.wheels / "stack.lock", "--offline", box.wheels)
    return box.start("apply", profile, "--yes", *lock)


def _entries(box: Sandbox) -> list[dict[str, str]]:
    paths = [run / "journal.jsonl" for run in box.runs]
    lines = [line for p in paths if p.exists() for line in p.read_text().splitlines()]
    return [json.loads(line) for line in lines]


def _wait_for_entry(box: Sandbox, process: subprocess.Popen[str], number: int) -> None:
    until = time.monotonic() + PATIENCE_S
    while len(_entries(box)) < number and process.poll() is None:
        assert time.monotonic() < until
        time.sleep(0.01)


def _kill(box: Sandbox, process: subprocess.Popen[str], victim: str) -> None:
    """SIGKILL doctor, or its Ansible as soon as there is one."""
    if victim == "doctor":
        process.kill()
        return
    until = time.monotonic() + 10
    while time.monotonic() < until and process.poll() is None:
        for pid in _playbooks(box):
            os.kill(pid, signal.SIGKILL)
            return
        time.sleep(0.01)


def _playbooks(box: Sandbox) -> Iterator[int]:
    """The first process of Ansible: the child that doctor itself started."""
    for run in box.runs[-1:]:
        yield from sorted(box.processes(f"DOCTOR_RUN={run.name}"))[:1]
