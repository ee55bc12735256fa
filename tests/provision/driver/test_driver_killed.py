"""SIGKILL at every point of a driver's journal: taken up again or undone, dpkg in good order."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.provision.driver.driven import Driven, kept
from tests.provision.driver.repository import kernel_headers, suffixed
from tests.provision.machine import call, fresh_machine

DOCTOR, PLAYBOOK, MACHINE = "doctor", "ansible-playbook", "machine"
RESUME, ROLLBACK = "resume", "rollback"
VICTIMS, WAYS = (DOCTOR, PLAYBOOK, MACHINE), (RESUME, ROLLBACK)
SEED = 20261130
# Lines of the journal but its end: begin, and two for each of six steps of a switch.
POINTS = range(1, 14)
# The line that says that packages are about to be changed.
TRANSACTION = 6
PATIENCE_S = 240.0
OLD, NEW = "570.86.10", "580.95.05"


def every() -> list[tuple[str, int, str]]:
    """Each victim at each point, mended in turn by either way."""
    return [(v, p, WAYS[(p + n) % 2]) for n, v in enumerate(VICTIMS) for p in POINTS]


def sample(number: int) -> list[tuple[str, int, str]]:
    """A few around the transaction, where most can be lost."""
    rows = [(v, p, w) for v in VICTIMS for p in (6, 7) for w in WAYS]
    return random.Random(SEED).sample(rows, number)  # noqa: S311 - any will do


@pytest.fixture(scope="module")
def again(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[], Driven]]:
    """Gives a machine with a driver that takes a while to change, each time as it was first."""
    folder = tmp_path_factory.mktemp("killed")
    with fresh_machine(folder) as found:
        home = folder / "home"
        home.mkdir()
        driven = Driven(found, home)
        driven.become("ubuntu", "24.04")
        new = suffixed(NEW, slow_s=1)
        driven.offer([*suffixed(OLD), *new, kernel_headers(driven.kernel)])
        answer = driven.apply(driven.profile(570))
        assert answer.status == 0, answer.err
        with kept(driven) as bring_back:

            def as_it_was() -> Driven:
                bring_back()
                return driven

            yield as_it_was


@pytest.mark.slow
@pytest.mark.docker
@pytest.mark.parametrize(("victim", "point", "way"), sample(1))
def test_killed_at_a_point(again: Callable[[], Driven], victim: str, point: int, way: str) -> None:
    kill_and_mend(again(), victim, point, way)


@pytest.mark.heavy
@pytest.mark.docker
@pytest.mark.parametrize(("victim", "point", "way"), every())
def test_killed_at_every_point(
    again: Callable[[], Driven], victim: str, point: int, way: str
) -> None:
    kill_and_mend(again(), victim, point, way)


@pytest.mark.heavy
@pytest.mark.docker
@pytest.mark.parametrize("moment", range(12))
def test_the_machine_dies_within_the_transaction(again: Callable[[], Driven], moment: int) -> None:
    """What apt and dpkg leave differs from moment to moment: some unpacked, some marked to go."""
    kill_and_mend(again(), MACHINE, TRANSACTION, ROLLBACK if moment % 4 else RESUME, moment * 0.7)


def kill_and_mend(
    gpu: Driven, victim: str, point: int, way: str, after_s: float | None = None
) -> None:
    """Kill while the branch is switched, mend, and look whether it is one set again.

    It is killed `after_s` after that point, if no other comes before, or any while after it.
    """
    profile = gpu.profile(580)
    began = len(entries(gpu))
    process = gpu.start("apply", profile, "--yes")
    _wait_for_entry(gpu, process, began + point)
    if after_s is None:
        time.sleep(random.Random(f"{SEED}-{victim}-{point}").uniform(0, 2))  # noqa: S311
    else:
        _wait_a_little(gpu, after_s)
    _kill(gpu, process, victim)
    _, said = process.communicate(timeout=PATIENCE_S)
    if victim == MACHINE:
        call("docker", "start", gpu.machine.name)
        gpu.machine.wait()
    ended = any(row["event"] == "end" for row in entries(gpu)[began:])
    if not ended:
        words = ("apply", profile, "--resume") if way == RESUME else ("rollback", profile)
        mended = gpu.run(*words)
        assert mended.status == 0, f"{said}\n{mended.err}"
    version = _whole(gpu)
    if not ended:
        assert version == (NEW if way == RESUME else OLD)


def _whole(gpu: Driven) -> str:
    """The driver is one set at one version, held, as it was applied; the version."""
    assert gpu.audit == ""
    found = {n: v.partition("-")[0] for n, v in gpu.versions.items() if "pinning" not in n}
    assert len(set(found.values())) == 1, found
    assert set(gpu.versions) <= gpu.holds
    drift = gpu.drift()
    assert drift.status == 0, drift.out
    return next(iter(found.values()))


def entries(gpu: Driven) -> list[dict[str, Any]]:
    """Journals of all runs, oldest first."""
    paths = sorted((gpu.home / ".local/state/doctor/runs").glob("*/journal.jsonl"))
    return [json.loads(line) for path in paths for line in path.read_text().splitlines()]


def _wait_for_entry(gpu: Driven, process: subprocess.Popen[str], number: int) -> None:
    until = time.monotonic() + PATIENCE_S
    while len(entries(gpu)) < number and process.poll() is None:
        assert time.monotonic() < until
        time.sleep(0.01)


def _wait_a_little(gpu: Driven, seconds: float) -> None:
    """Wait, but not beyond the next line of the journal."""
    until, lines = time.monotonic() + seconds, len(entries(gpu))
    while time.monotonic() < until and len(entries(gpu)) == lines:
        time.sleep(0.005)


def _kill(gpu: Driven, process: subprocess.Popen[str], victim: str) -> None:
    """SIGKILL doctor, the whole machine, or Ansible as soon as there is one."""
    if victim == DOCTOR:
        process.kill()
    elif victim == MACHINE:
        call("docker", "kill", gpu.machine.name)
    else:
        until = time.monotonic() + 10
        while time.monotonic() < until and process.poll() is None:
            pids = _of_ansible(gpu)
            if pids:
                os.kill(pids[0], signal.SIGKILL)
                return
            time.sleep(0.01)


def _of_ansible(gpu: Driven) -> list[int]:
    """Processes here that carry the mark of the newest run, the first one first."""
    runs = sorted((gpu.home / ".local/state/doctor/runs").iterdir())
    mark = f"DOCTOR_RUN={runs[-1].name}".encode()
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if mark in (entry / "environ").read_bytes().split(b"\0"):
                    found.append(int(entry.name))
            except OSError:
                continue
    return sorted(found)
