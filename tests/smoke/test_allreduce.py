"""Ranks that add up, hang, add up wrongly or fail: each is named. The real sum is heavy."""

from __future__ import annotations

import os
import sys
import venv
from pathlib import Path

import pytest

from doctor.smoke.allreduce import all_reduce
from doctor.smoke.steps import State, Step

# As much of torch as the check asks for, with a fault from the environment.
TORCH = """
import os, sys, time
__version__ = "0"
FAULT = os.environ.get("FAULT", "")

class Numbers(list):
    def __mod__(self, n): return Numbers(x % n for x in self)
    def __mul__(self, n): return Numbers(x * n for x in self)
    def float(self): return self
    def __eq__(self, other): return Flags(a == b for a, b in zip(self, other))
    def __ne__(self, other): return Flags(a != b for a, b in zip(self, other))

class Flags(list):
    def all(self): return all(self)
    def sum(self): return sum(self)

class cuda:
    @staticmethod
    def device_count(): return 2 if FAULT != "one-device" else 1

def device(*_): return None
def arange(size, device=None): return Numbers(range(min(size, 300)))
"""
GROUP = """
import os, sys, time
from torch import FAULT
state = {}

def init_process_group(backend, init_method, rank, world_size, timeout):
    state.update(rank=rank, ranks=world_size)
    print("NCCL INFO noise")
    if FAULT == "no-join" and rank == 1: raise RuntimeError("no route to peer\\nmore")
    if FAULT in ("hang", "no-join"): time.sleep(60)
    if FAULT == "crash" and rank == 1: print("Bus error", file=sys.stderr); os._exit(7)
    if FAULT == "crash": time.sleep(60)

def all_reduce(numbers):
    factor = (state["ranks"] * (state["ranks"] + 1) // 2) / (state["rank"] + 1)
    numbers[:] = [round(x * factor) for x in numbers]
    if FAULT == "wrong" and state["rank"] == 1: numbers[5] += 1

def barrier(): pass
def destroy_process_group(): pass
"""


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A Python environment whose torch is ours."""
    root = tmp_path_factory.mktemp("env")
    venv.create(root, with_pip=False, symlinks=True)
    site = root / "lib" / f"python3.{sys.version_info.minor}" / "site-packages"
    (site / "torch").mkdir(parents=True)
    (site / "torch" / "__init__.py").write_text(TORCH)
    (site / "torch" / "distributed.py").write_text(GROUP)
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
