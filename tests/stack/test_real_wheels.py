"""Wheels that the resolver proposes or refuses, opened: is there code for the card?"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from doctor.binaries.coverage import Tally, tally
from doctor.binaries.scan import scan
from doctor.facts import ComputeCapability
from tests.stack.asking import ask_for, proven

pytestmark = pytest.mark.heavy

BOX = "python=3.12,ubuntu=22.04,arch=x86_64,glibc=2.35"
_PLATFORMS = tuple(f"manylinux_2_{minor}_x86_64" for minor in range(17, 36))
_PLACE = ("--python-version", "3.12", "--only-binary", ":all:", "--no-deps", "-q")


def main_library(wheel: str, card: str, folder: Path) -> Tally:
    """What the card can run of the library that holds the most kernels."""
    tags = [word for tag in _PLATFORMS for word in ("--platform", tag)]
    pip = [sys.executable, "-m", "pip", "download", *_PLACE, *tags, "-d", str(folder), wheel]
    subprocess.run(pip, check=True)
    found = scan(str(next(folder.glob("*.whl"))))
    capability = ComputeCapability.parse(card)
    tallies = (tally(file.contents.kernels, capability, frozenset()) for file in found.files)
    return max(tallies, key=lambda one: one.total)


@pytest.mark.parametrize(
    ("line", "engine", "package", "card"),
    [
        (f"RTX 5090,driver=580.95.05,{BOX}", "vllm", "torch", "12.0"),
        (f"H100,driver=580.95.05,{BOX}", "vllm", "vllm", "9.0"),
        (f"T4,driver=580.95.05,{BOX}", "onnxruntime", "onnxruntime-gpu", "7.5"),
    ],
)
def test_a_proposed_wheel_has_code_for_the_card(
    line: str, engine: str, package: str, card: str, tmp_path: Path
) -> None:
    best = proven(ask_for(line, {"engine": engine}))[0]
    version = best.torch if package == "torch" else best.version
    found = main_library(f"{package}=={version}", card, tmp_path)
    assert found.sass > 100


def test_the_torch_of_a_refused_stack_has_none(tmp_path: Path) -> None:
    asked = {"engine": "vllm", "spec": "==0.30.0"}
    refused = ask_for(f"V100,driver=580.95.05,{BOX}", asked).refused
    torch = {str(judged.candidate.torch.version) for judged in refused if judged.candidate.torch}
    assert torch == {"2.13.0"}
    found = main_library("torch==2.13.0", "7.0", tmp_path)
    assert (found.sass, found.ptx) == (0, 0)
    assert found.none
