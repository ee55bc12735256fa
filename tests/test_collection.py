"""The names of the tests: the same in every process, whenever it collects them.

Two workers that disagree on one name refuse the whole run.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fakes.clock import collected

ROOT = Path(__file__).parent.parent


@pytest.mark.slow
def test_names_depend_neither_on_the_clock_nor_on_the_hash_seed(
    request: pytest.FixtureRequest,
) -> None:
    own = collected(request.session.items)
    files = sorted({item.nodeid.partition("::")[0] for item in request.session.items})
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-qq",
         "-p", "tests.fakes.clock", *files],
        cwd=ROOT, env={**os.environ, "PYTHONHASHSEED": "1789"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-2000:]
    again = set(done.stdout.splitlines())
    assert not (changed := sorted(own - again)), changed[:20]
