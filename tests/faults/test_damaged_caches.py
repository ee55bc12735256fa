"""Caches that rot: what is not whole is read anew, and no other answer comes of it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from doctor.binaries.cache import Memory
from doctor.matrix import load_matrix
from doctor.matrix.cache import read_compiled, write_compiled
from doctor.matrix.load import DATA
from tests.faults.damage import DAMAGE, flipped

FLIPS = 300
PAYLOAD = b'{"driver":"535.129.03"}'


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path


def test_no_flipped_bit_of_a_compiled_domain_is_a_figure(tmp_path: Path) -> None:
    path = tmp_path / "domain.json"
    write_compiled(path, PAYLOAD, "digest")
    whole = path.read_bytes()
    assert read_compiled(path, "digest") == PAYLOAD
    for number in range(FLIPS):
        path.write_bytes(flipped(whole, number))
        assert read_compiled(path, "digest") is None


def test_no_flipped_bit_of_what_was_read_of_binaries_is_recalled(tmp_path: Path) -> None:
    kept = Memory(str(tmp_path), "environment")
    kept.keep("kind", "/a", [1, 2], {"targets": ["sm_90"]})
    kept.save()
    (path,) = tmp_path.iterdir()
    whole = path.read_bytes()
    assert _recalled(tmp_path) == {"targets": ["sm_90"]}
    for number in range(FLIPS):
        path.write_bytes(flipped(whole, number))
        assert _recalled(tmp_path) is None


def _recalled(folder: Path) -> object:
    return Memory(str(folder), "environment").recall("kind", "/a", [1, 2])


@pytest.fixture
def data(home: Path, tmp_path: Path) -> Path:
    """A matrix of two small domains."""
    folder = tmp_path / "data"
    folder.mkdir()
    for name in ("cann", "tgi"):
        shutil.copy(DATA / f"{name}.yaml", folder)
    return folder


@pytest.mark.parametrize("damage", DAMAGE)
def test_any_damage_of_the_matrix_cache_is_no_fault(data: Path, damage: str) -> None:
    right = (load_matrix(data).heads, load_matrix(data).engine("tgi"))
    kept = sorted((data.parent / "llm-doctor/matrix").glob("*.json"))
    assert len(kept) == 3
    for path in kept:
        DAMAGE[damage](path)
    assert (load_matrix(data).heads, load_matrix(data).engine("tgi")) == right


@pytest.mark.parametrize("damage", DAMAGE)
def test_any_damage_of_the_cache_of_binaries_is_no_fault(tmp_path: Path, damage: str) -> None:
    kept = Memory(str(tmp_path), "environment")
    kept.keep("kind", "/a", [1, 2], "value")
    kept.save()
    (path,) = tmp_path.iterdir()
    DAMAGE[damage](path)
    assert _recalled(tmp_path) is None
    again = Memory(str(tmp_path), "environment")
    again.keep("kind", "/a", [1, 2], "value")
    again.save()
    assert _recalled(tmp_path) in ("value", None)


@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo, Path.touch])
def test_a_cache_that_is_no_folder_is_no_fault(data: Path, make: Callable[[Path], None]) -> None:
    make(data.parent / "llm-doctor")
    assert load_matrix(data).engine("tgi")
    kept = Memory(str(data.parent / "llm-doctor/binaries"), "x")
    kept.keep("kind", "/a", [1], "value")
    kept.save()
