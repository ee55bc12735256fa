"""The wheel carries the known-answer model, and proves an engine with it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.slow


def test_smoke_from_a_wheel(tmp_path: Path) -> None:
    pytest.importorskip("xllamacpp")
    argv = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(argv, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "site")
    done = subprocess.run(
        [sys.executable, "-m", "doctor", "smoke", "--format", "json"],
        cwd=tmp_path / "site",
        env={**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")},
        check=False,
        capture_output=True,
        text=True,
    )
    report = json.loads(done.stdout)
    assert report["verdict"] == "proven", report
    assert str(tmp_path) in " ".join(report["target"]["command"])
