"""Ctrl-C while doctor is being loaded: one line and exit 130, never a trace."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.real

# Python loads this before anything else: it presses Ctrl-C when a module is asked for.
INTERRUPTING = """
import sys
class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == {name!r}:
            raise KeyboardInterrupt
sys.meta_path.insert(0, Interrupting())
"""
STARTS = {
    "module": ("-m", "doctor"),
    "script": ("-c", "import sys; from doctor.entry import main; sys.exit(main())"),
}


@pytest.mark.parametrize("name", ["doctor.cli", "doctor.errors", "enum", "click", "msgspec"])
@pytest.mark.parametrize("start", STARTS)
def test_interrupted_while_it_loads(tmp_path: Path, start: str, name: str) -> None:
    (tmp_path / "sitecustomize.py").write_text(INTERRUPTING.format(name=name))
    environ = {**os.environ, "PYTHONPATH": str(tmp_path)}
    command = [sys.executable, *STARTS[start], "check", "--host", "H100,driver=580"]
    done = subprocess.run(command, check=False, capture_output=True, text=True, env=environ)
    assert (done.returncode, done.stdout) == (130, "")
    assert done.stderr.strip() == "doctor: interrupted"
