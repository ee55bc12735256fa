"""Ranks that add up, hang, add up wrongly or fail: each is named. The real sum is heavy."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from doctor.smoke.allreduce import all_reduce
from doctor.smoke.steps import State, Step
from tests.smoke.environments import environment


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A Python environment whose torch is ours."""
    root = tmp_path_factory.mktemp("env") / "env"
    environment(root, {}, {})
    return str(root / "bin" / "python")


def reduced(python: str, fault: str = "", kind: str = "cuda", timeout_s: float = 20.0) -> Step:
    return all_reduce(python, kind, 2, {**os.environ, "FAULT": fault}, timeout_s)


@pytest.mark.real
@pytest.mark.parametrize("kind", ["cuda", "cpu"])
def test_sound_ranks(kind: str, python: str) -> None:
    step = reduced(python, kind=kind)
    assert step.state is State.PASSED, step
    assert step.text.startswith("2 ranks, nccl" if kind == "cuda" else "2 ranks, gloo")


@pytest.mark.real
@pytest.mark.parametrize(
    ("fault", "name", "words"),
    [
        ("wrong", "all-reduce-wrong", "rank 1: 1 of 256 sums"),
        ("one-device", "all-reduce-fails", "torch sees 1 of 2 devices"),
        ("no-join", "all-reduce-fails", "rank 1: RuntimeError: no route to peer"),
        ("crash", "all-reduce-fails", "rank 1: Bus error"),
    ],
)
def test_unsound_ranks(fault: str, name: str, words: str, python: str) -> None:
    step = reduced(python, fault)
    assert step.fault == name
    assert words in step.text
    assert step.seconds < 15


@pytest.mark.real
def test_ranks_that_hang(python: str) -> None:
    step = reduced(python, "hang", timeout_s=0.5)
    assert step.fault == "all-reduce-hangs"
    assert "0, 1" in step.text


@pytest.mark.real
def test_no_torch_and_no_python(tmp_path: Path) -> None:
    # The tests' own environment has no torch.
    assert "torch" in reduced(sys.executable).text
    assert "cannot start" in reduced(str(tmp_path / "python")).text


@pytest.mark.heavy
def test_real_gloo() -> None:
    """Needs DOCTOR_TORCH_PYTHON: a Python whose environment has torch (any build)."""
    named = os.environ.get("DOCTOR_TORCH_PYTHON", "")
    if not named:
        pytest.skip("DOCTOR_TORCH_PYTHON names no Python with torch")
    step = all_reduce(named, "cpu", 2, os.environ)
    assert step.state is State.PASSED, step
    assert "gloo" in step.text
