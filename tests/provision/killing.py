"""Kill at a point of the journal, mend, and look whether anything is left of it."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from doctor.provision.playbook import children
from tests.provision.machine import PREPARED, Machine, call, machine
from tests.provision.sandbox import Answer, Sandbox

DOCTOR, PLAYBOOK, CONTAINER = "doctor", "ansible-playbook", "container"
RESUME, ROLLBACK = "resume", "rollback"
SEED = 20261130
PATIENCE_S = 1200.0


@dataclass(frozen=True)
class Scene:
    """A service: of a user here, or, with a machine, of that machine's system or its root."""

    box: Sandbox
    options: tuple[str, ...] = ("--user",)
    machine: Machine | None = None

    @property
    def points(self) -> int:
        """Lines of the journal of a first apply, its end excepted: begin, and two for each step.

        Four steps, and before them the library that a fresh system lacks.
        """
        return 9 if "--user" in self.options else 11

    def start(self, *words: str | Path) -> subprocess.Popen[str]:
        """Start the command."""
        return self.box._start(*words, *self.options)

    def run(self, *words: str | Path) -> Answer:
        """Run the command to its end."""
        return self.box._end(self.start(*words))

    def apply(self, profile: Path) -> subprocess.Popen[str]:
        """Start to apply a profile with the files at hand."""
        return self.start("apply", profile, "--yes", *self.box._files)

    def entries(self) -> list[dict[str, Any]]:
        """Journals of all runs."""
        paths = [run / "journal.jsonl" for run in self.box.runs]
        lines = [line for p in paths if p.exists() for line in p.read_text().splitlines()]
        return [json.loads(line) for line in lines]

    def marked(self, mark: str) -> bool:
        """Whether any process of that machine, or else here, carries an entry in its environment.

        What runs in containers is seen here too: in another one it is another test's.
        """
        if self.machine is None:
            return bool(self.box.processes(mark))
        return self.machine.status(*_LOOK, mark)[0] == 0


# What the engine needs of the system.
LIBRARY = ("apt-get", "install", "-y", "-qq", "--no-install-recommends", "libgomp1")
# Of its own environment the looker has no part: docker exec hands it none.
_LOOK = ("grep", "-lzxsr", "--include=environ", "--exclude-dir=task", "/proc", "-e")


def kill_and_mend(scene: Scene, victim: str, point: int, way: str, and_again: bool = True) -> None:
    """Kill at a point and a little after it, take the run up or undo it, look, apply again."""
    profile = scene.box.profile()
    process = scene.apply(profile)
    _wait_for_entry(scene, process, point)
    time.sleep(random.Random(f"{SEED}-{point}").uniform(0, 2.0))  # noqa: S311 - any moment will do
    _kill(scene, process, victim)
    process.communicate(timeout=PATIENCE_S)
    _boot(scene, victim)
    ended = [row for row in scene.entries() if row["event"] == "end"]
    if not ended:
        words = ("apply", profile, "--resume") if way == RESUME else ("rollback", profile)
        mended = scene.run(*words)
        assert mended.status == 0, mended.err
    status = scene.run("drift", profile).status
    is_there = status == 0
    assert is_there or status == 2, "what is not as applied is not there at all"
    assert is_there or way == ROLLBACK or ended
    assert is_there or not scene.marked(f"DOCTOR_SERVICE={_home(scene)}")
    _left_clean(scene)
    if not and_again:
        return
    again = scene.box._end(scene.apply(profile))
    assert again.status == 0, again.err
    assert scene.run("drift", profile).status == 0
    _left_clean(scene)


def kill_along(scene: Scene, victim: str) -> None:
    """Kill one and the same run at every point in turn, taking it up each time."""
    profile = scene.box.profile()
    process = scene.apply(profile)
    for point in range(1, scene.points + 1):
        _wait_for_point(scene, process, point)
        _wait_a_little(scene, random.Random(f"{SEED}-{victim}-{point}").uniform(0, 2.0))  # noqa: S311
        _kill(scene, process, victim)
        _, said = process.communicate(timeout=PATIENCE_S)
        _boot(scene, victim)
        if any(row["event"] == "end" for row in scene.entries()):
            # Between its last lines there is no time to kill anybody.
            assert point >= scene.points - 1, said
            break
        process = scene.start("apply", profile, "--resume")
    else:
        _, said = process.communicate(timeout=PATIENCE_S)
        assert process.returncode == 0, said
    assert len(scene.box.runs) == 1
    assert scene.run("drift", profile).status == 0
    _left_clean(scene)


@contextmanager
def released_image(folder: Path, wheels: Path, *options: str) -> Iterator[str]:
    """A machine on which the release lies and no service: most of an apply need not be repeated."""
    with machine(folder, image=PREPARED) as found:
        found.run(*LIBRARY)
        scene = Scene(Sandbox(folder, wheels), (*options, *found.by_docker), found)
        profile = scene.box.profile()
        process = scene.apply(profile)
        _wait_for_entry(scene, process, 4)
        process.kill()
        process.communicate(timeout=PATIENCE_S)
        assert [row["event"] for row in scene.entries()][:4] == ["begin", "step", "done", "step"]
        assert scene.run("rollback", profile).status == 0
        assert found.run("ls", f"{_home(scene)}/releases")
        found.run("rm", "-rf", f"{_home(scene)}/model")
        name = f"{found.name}-released"
        call("docker", "commit", found.name, name)
    try:
        yield name
    finally:
        call("docker", "rmi", "-f", name)


def _wait_for_point(scene: Scene, process: subprocess.Popen[str], number: int) -> None:
    """Wait until so many different lines have been written, by a run begun as many times."""
    until = time.monotonic() + PATIENCE_S
    while process.poll() is None:
        assert time.monotonic() < until
        rows = [(row["event"], row.get("step", "")) for row in scene.entries()]
        points = {row for row in rows if row[0] in ("begin", "step", "done")}
        if len(points) >= number and rows.count(("begin", "")) >= number:
            return
        time.sleep(0.01)


def _wait_a_little(scene: Scene, seconds: float) -> None:
    """Wait, but not beyond the next line: a quick machine would have passed the point."""
    until, lines = time.monotonic() + seconds, len(scene.entries())
    while time.monotonic() < until and len(scene.entries()) == lines:
        time.sleep(0.005)


def _boot(scene: Scene, victim: str) -> None:
    """Start the machine again, if it was the victim."""
    if victim == CONTAINER and scene.machine is not None:
        call("docker", "start", scene.machine.name)
        scene.machine.wait()


def _home(scene: Scene) -> str:
    if scene.machine is None:
        return str(scene.box.service)
    return "/opt/doctor/demo" if "--user" not in scene.options else "/root/.local/share/doctor/demo"


def _left_clean(scene: Scene) -> None:
    for run in scene.box.runs:
        assert not scene.marked(f"DOCTOR_RUN={run.name}")
        assert not scene.box.processes(f"DOCTOR_RUN={run.name}")
    if scene.machine is not None:
        assert scene.machine.run("dpkg", "--audit") == ""
        assert scene.machine.run("ls", "/var/lib/dpkg/updates") == ""


def _wait_for_entry(scene: Scene, process: subprocess.Popen[str], number: int) -> None:
    until = time.monotonic() + PATIENCE_S
    while len(scene.entries()) < number and process.poll() is None:
        assert time.monotonic() < until
        time.sleep(0.01)


def _kill(scene: Scene, process: subprocess.Popen[str], victim: str) -> None:
    """SIGKILL doctor, the whole machine, or Ansible as soon as there is one.

    Nothing of a run that has ended in between: a machine that was killed later is no matter of
    its run.
    """
    if any(row["event"] == "end" for row in scene.entries()):
        return
    if victim == DOCTOR:
        process.kill()
        return
    if victim == CONTAINER and scene.machine is not None:
        call("docker", "kill", scene.machine.name)
        return
    until = time.monotonic() + 10
    while time.monotonic() < until and process.poll() is None:
        for pid in _playbooks(scene.box, process.pid):
            os.kill(pid, signal.SIGKILL)
            return
        time.sleep(0.01)


def _playbooks(box: Sandbox, doctor: int) -> Iterator[int]:
    """The first process of Ansible: the child that doctor itself started."""
    own = set(children(doctor))
    for run in box.runs[-1:]:
        yield from (pid for pid in box.processes(f"DOCTOR_RUN={run.name}") if pid in own)
