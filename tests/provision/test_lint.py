"""The roles pass ansible-lint's strictest profile."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from doctor.resources import resource


@pytest.mark.slow
def test_production_profile(tmp_path: Path) -> None:
    pytest.importorskip("ansiblelint")
    folder = Path(sys.executable).parent
    command = [str(folder / "ansible-lint"), "--offline", "--profile", "production", "--nocolor"]
    answer = subprocess.run(
        [*command, "."],
        cwd=resource("playbooks"),
        env={**os.environ, "PATH": f"{folder}:{os.environ['PATH']}", "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert answer.returncode == 0, answer.stdout
