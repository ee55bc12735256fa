"""File systems that are slow or do not answer any more: no check hangs on them."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from doctor.facts import Missing
from doctor.probes.local import LocalHost
from doctor.probes.mounts import parse_mounts, silent_mounts, silent_part
from tests.provision.machine import may_mount

TABLE = """\
22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
30 22 0:27 / /mnt/with\\040blank rw - nfs4 server:/x rw,hard
31 22 0:28 / /net rw - autofs auto.net rw
32 22 0:29 / /models ro - fuse.slow slow ro
32 22 0:29 / /models ro - fuse.slow slow ro
nonsense
"""


def test_mounts_are_read_as_the_kernel_writes_them() -> None:
    assert parse_mounts(TABLE) == ("/", "/mnt/with blank", "/models")
    assert parse_mounts("") == ()


def test_what_leads_into_a_mount_is_known_without_touching_it(tmp_path: Path) -> None:
    dead = f"{tmp_path}/dead"
    (tmp_path / "direct").symlink_to("dead/models")
    (tmp_path / "far").symlink_to(f"{tmp_path}/direct/x")
    (tmp_path / "round").symlink_to("round")
    (tmp_path / "out").symlink_to("dead/../fine")
    for name in ("dead", "dead/x/y", "direct", "direct/y", "far", "./dead//x", "far/../z"):
        assert silent_part(f"{tmp_path}/{name}", (dead,)) == dead, name
    for name in ("", "deader", "fine", "round", "round/x", "none/dead"):
        assert silent_part(f"{tmp_path}/{name}", (dead,)) == "", name
    host = LocalHost(silent=lambda: (dead,))
    answers = (
        host.read_text(f"{tmp_path}/far"),
        host.list_dir(dead),
        host.stat(dead),
        host.disk(dead),
        host.real_path(f"{tmp_path}/direct"),
    )
    assert {answer.missing for answer in answers} == {Missing.TIMED_OUT}
    assert host.local_path(dead) is None


@pytest.mark.real
def test_mounts_that_answer_are_none_of_them(tmp_path: Path) -> None:
    table = tmp_path / "mountinfo"
    table.write_text(TABLE)
    assert silent_mounts(str(table)) == ()
    assert silent_mounts(f"{tmp_path}/none") == ()


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not may_mount() or not os.path.exists("/dev/fuse"):
        pytest.skip("a slow file system needs root and /dev/fuse")
    folder = tmp_path_factory.mktemp("served")
    venv.create(folder / "env", with_pip=True)
    (folder / "mount").mkdir()
    return folder


def check(folder: Path, delay_s: float, hung: str, *words: str) -> tuple[int, str, str]:
    """`doctor check` while `folder` is seen below folder/mount too."""
    served = ["tests.faults.slow_files", str(folder), f"{folder}/mount", str(delay_s), hung]
    command = ["unshare", "--mount", sys.executable, "-m", *served,
               sys.executable, "-m", "doctor", "check", *words]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.slow
def test_a_slow_file_system_is_waited_for_and_told_the_same(environment: Path) -> None:
    words = ("--python", f"{environment}/mount/env", "--engine", "vllm", "--format", "markdown")
    fast, slow = (check(environment, delay_s, "", *words) for delay_s in (0.0, 0.005))
    assert fast[0] in (1, 3), fast
    assert (slow[0], slow[1].splitlines()[0]) == (fast[0], fast[1].splitlines()[0])


@pytest.mark.slow
def test_one_that_does_not_answer_is_named_and_left_alone(environment: Path) -> None:
    dead = f"{environment}/mount"
    words = ("--python", f"{dead}/env", "--engine", "vllm")
    status, out, err = check(environment, 0.0, str(environment), *words)
    assert (status, out) == (2, "")
    assert err.splitlines()[0] == f"doctor: --python {dead}/env: {dead} does not answer"
    assert check(environment, 0.0, str(environment))[0] in (0, 1)
