"""Locks, profiles, snapshots and other files of one's own, damaged: refused, never passed."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from doctor.cli.main import run
from doctor.errors import DoctorError
from doctor.images.pins import read_pins
from doctor.matrix.learnt import read_learnt
from doctor.profile.lock import SCHEMA, Lock, LockedPackage, lock_text, write_lock
from tests.faults.asking import ROOT
from tests.faults.damage import DAMAGE

HOSTS = ROOT / "tests/hosts"
LOCK = Lock(
    schema=SCHEMA,
    profile="llamacpp-cpu",
    engine="xllamacpp",
    version="1.0",
    python="3.11",
    platform="x86_64-manylinux_2_28",
    wanted=("xllamacpp",),
    packages=(LockedPackage(name="xllamacpp", version="1.0", sha256=("0" * 64,)),),
)
# What a file is handed over as, and the exits for one that is damaged: never 0.
LINES = {
    "lock": ("plan llamacpp-cpu --user --lock {}", (2,)),
    "host lock": ("plan nvidia-driver --lock {}", (2,)),
    "profile": ("profile validate {}", (2,)),
    "snapshot": ("check --facts {}", (2, 3)),
    "baseline": (f"check --facts {HOSTS}/h200x8-fabricmanager/facts.json --baseline {{}}", (2,)),
    "config": (f"check --facts {HOSTS}/h200x8-fabricmanager/facts.json --config {{}}", (1, 2)),
}


def made(what: str, path: Path) -> None:
    """A sound file of that kind."""
    if what == "lock":
        write_lock(path, LOCK)
    elif what == "profile":
        shutil.copy(ROOT / "profiles/llamacpp-cpu.yaml", path)
    elif what == "snapshot":
        shutil.copy(HOSTS / "gb10-580/facts.json", path)
    else:
        path.write_text('{"schema": "doctor/x/v1", "findings": {"a": "b"}, "ignore": []}')


def _endless(path: Path) -> None:
    os.truncate(path, 100 << 20)


MORE = {**DAMAGE, "100 MB": _endless}


@pytest.mark.parametrize("damage", MORE)
@pytest.mark.parametrize("what", LINES)
def test_a_damaged_file_is_refused_in_one_line(
    what: str, damage: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "file.yaml"
    made(what, path)
    MORE[damage](path)
    line, right = LINES[what]
    status = run(line.format(path).split())
    out, err = capsys.readouterr()
    assert status in right, (out[-500:], err)
    assert "bug" not in err
    if status == 2:
        assert out == ""
        assert err.startswith("doctor: ")
        assert len(err.splitlines()) == 2, err


def test_a_lock_of_a_newer_doctor_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "stack.lock"
    path.write_text(lock_text(LOCK).replace(SCHEMA, "doctor/lock/v9"))
    assert run(["plan", "llamacpp-cpu", "--user", "--lock", str(path)]) == 2
    assert f"this doctor reads {SCHEMA}" in capsys.readouterr().err


@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize("read", [lambda path: read_pins(str(path)), read_learnt])
def test_what_doctor_wrote_itself_is_refused_too(
    tmp_path: Path, damage: str, read: Callable[[Path], object]
) -> None:
    path = tmp_path / "file"
    path.write_text('{"schema": "doctor/image-pins/v1", "images": {"debian:12": "sha256:0"}}')
    DAMAGE[damage](path)
    with pytest.raises(DoctorError) as fault:
        read(path)
    assert str(path) in str(fault.value)
    assert fault.value.hint
