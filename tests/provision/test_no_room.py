"""Disks that are full or read-only, and a second doctor: refused, or a state that is named."""

from __future__ import annotations

import fcntl
import json
import resource
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.provision.killing import PATIENCE_S, Scene, _wait_for_entry
from tests.provision.machine import Machine, fresh_machine
from tests.provision.sandbox import Sandbox

# /opt/doctor is read-only; what belongs to the user root lies on a small disk.
DISKS = ("--tmpfs", "/opt:ro,size=300m", "--tmpfs", "/root/.local:exec,size=260m")
FILLER = "/root/.local/filler"


@pytest.fixture
def debian(tmp_path: Path) -> Iterator[Machine]:
    with fresh_machine(tmp_path, *DISKS) as found:
        yield found


@pytest.mark.heavy
@pytest.mark.docker
def test_read_only_refused_full_and_mended(box: Sandbox, debian: Machine) -> None:
    profile = box.profile()
    answer = box.run_on(
        debian.by_docker, "apply", profile, "--yes", "--format", "json", *box._files
    )
    assert answer.status == 4
    assert answer.json["end"] == "rolled-back"
    assert "Read-only file system" in answer.json["failure"]
    assert box.run_on(debian.by_docker, "drift", profile).status == 2

    scene = Scene(box, ("--user", *debian.by_docker), debian)
    debian.run("fallocate", "-l", "200M", FILLER)
    refused = box._end(scene.apply(profile))
    assert refused.status == 1
    assert "are free there" in " ".join(refused.out.split())
    debian.run("rm", FILLER)

    began = len(scene.entries())
    process = scene.apply(profile)
    _wait_for_entry(scene, process, began + 2)
    time.sleep(2)
    _fill(debian)
    answer = box._end(process)
    assert answer.status == 4, answer.err
    assert "No space left" in answer.err + answer.out
    debian.run("rm", FILLER)
    if not [row for row in scene.entries()[began:] if row["event"] == "end"]:
        assert "--resume" in answer.out
        assert scene.run("rollback", profile).status == 0
    again = box._end(scene.apply(profile))
    assert again.status == 0, again.err
    assert scene.run("drift", profile).status == 0


def _fill(debian: Machine) -> None:
    """Write until nothing more goes in; what is freed meanwhile is filled too."""
    words = ("dd", "if=/dev/zero", f"of={FILLER}", "bs=64k", "oflag=append", "conv=notrunc")
    for _ in range(8):
        debian.status(*words)
        time.sleep(0.3)


@pytest.mark.slow
def test_a_second_doctor_is_told_of_the_first(box: Sandbox) -> None:
    profile = box.profile()
    folder = box.home / ".local/state/doctor/locks"
    folder.mkdir(parents=True)
    with (folder / "local_demo").open("a+") as lock:
        lock.write("4711\n")
        lock.flush()
        fcntl.flock(lock, fcntl.LOCK_EX)
        second = box.apply(profile)
        resumed = box.run("rollback", profile)
    for answer in (second, resumed):
        assert answer.status == 4
        assert "another doctor works on local/demo (process 4711)" in answer.err
    assert not box.service.exists()


@pytest.mark.slow
def test_a_disk_that_fills_here_leaves_a_run_that_can_be_taken_up(box: Sandbox) -> None:
    profile = box.profile()
    scene = Scene(box)
    process = scene.apply(profile)
    _wait_for_entry(scene, process, 2)
    journal = box.runs[-1] / "journal.jsonl"
    size = journal.stat().st_size
    resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (size, size))
    _, said = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 4, said
    assert "journal.jsonl cannot be written: File too large" in said
    assert [json.loads(line)["event"] for line in journal.read_text().splitlines()][-1] != "end"
    assert box.run("apply", profile, "--resume").status == 0
    assert box.run("drift", profile).status == 0


@pytest.mark.slow
def test_the_state_folder_is_no_folder(box: Sandbox) -> None:
    state = box.home / ".local/state"
    state.parent.mkdir(parents=True)
    state.write_text("a file\n")
    answer = box.apply(box.profile())
    assert answer.status == 4
    assert f"{state}/doctor" in answer.err
    assert "XDG_STATE_HOME=" in answer.err
    assert subprocess.run(["ls", str(box.service)], check=False, capture_output=True).returncode
