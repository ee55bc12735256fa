"""The script that holds doctor against a real GPU: what it calls same, and what it does not."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent
SCRIPT = ROOT / "scripts" / "gpu_verify.py"
H200 = json.loads((ROOT / "tests/hosts/h200x8-fabricmanager/facts.json").read_text())
CARD = "NVIDIA H200, 570.211.01, 9.0, 143771, 0x233510DE, Disabled\n"
TORCH = {"torch": "2.14.0+cu130", "cuda": "13.0", "capabilities": ["9.0"] * 8}


@pytest.fixture(scope="module")
def verify() -> Iterator[ModuleType]:
    spec = importlib.util.spec_from_file_location("gpu_verify", SCRIPT)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules["gpu_verify"] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules["gpu_verify"]


def smi(folder: Path, text: str) -> str:
    """A stand-in nvidia-smi that prints `text`; returns a PATH that leads to it."""
    program = folder / "nvidia-smi"
    program.write_text(f"#!/bin/sh\ncat <<'X'\n{text}X\n")
    program.chmod(0o755)
    return f"{folder}:/usr/bin:/bin"


@pytest.mark.real
@pytest.mark.parametrize(
    ("text", "differing"),
    [
        (CARD * 8, set()),
        (CARD * 7, {"cards"}),
        (CARD.replace("9.0", "9.9") + CARD * 7, {"card gpu0 compute capability"}),
        (CARD.replace("570.211.01", "570.1") + CARD * 7, {"driver"}),
    ],
)
def test_facts_beside_nvidia_smi(
    verify: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str,
    differing: set[str],
) -> None:  # fmt: skip
    monkeypatch.setenv("PATH", smi(tmp_path, text))
    rows = list(verify.against_smi(H200))
    assert len(rows) == 1 + 4 * min(8, text.count("\n"))
    assert {row.what for row in rows if row.state == verify.DIFFERS} == differing


def test_a_torch_that_doctor_did_not_see_differs(verify: ModuleType) -> None:
    rows = list(verify.against_torch(H200, TORCH))
    assert [r.what for r in rows if r.state == verify.DIFFERS] == ["torch"]
    assert len(rows) == 9


@pytest.mark.parametrize(
    ("counts", "as_it_is", "sass", "ptx"),
    [
        ((5, 5, 0, 5), True, True, False),
        ((5, 0, 5, 5), True, False, True),
        ((5, 0, 0, 0), False, False, False),
        ((5, 4, 0, 4), None, None, False),
    ],
)
def test_what_must_run(
    verify: ModuleType, counts: tuple[int, ...], as_it_is: Any, sass: Any, ptx: Any
) -> None:
    found = verify.Counts(*counts)
    assert [verify.expected(found, mode) for mode in verify.MODES] == [as_it_is, sass, ptx]


def test_groups_are_counted_by_what_each_card_can_run(verify: ModuleType) -> None:
    groups = [
        {"targets": ["sm_80", "compute_90"], "count": 3},
        {"targets": ["sm_90a"]},
        {"targets": ["sm_120"]},
    ]
    report = {"files": [{"kernels": groups}, {}]}
    assert verify.tally(report, "9.0") == verify.Counts(5, 1, 3, 4)
    assert verify.tally(report, "8.9") == verify.Counts(5, 3, 0, 3)


@pytest.mark.real
def test_where_no_gpu_is_it_says_so(tmp_path: Path) -> None:
    command = [sys.executable, str(SCRIPT), str(tmp_path / "out")]
    done = subprocess.run(
        command, env={"PATH": str(tmp_path)}, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert "no GPU" in done.stderr
    assert not (tmp_path / "out").exists()
