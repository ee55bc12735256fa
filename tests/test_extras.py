"""What is said to somebody who lacks an extra can be typed as it stands."""

from __future__ import annotations

import shlex
import subprocess
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
ASK = "from doctor.extras import how_to_add; print(how_to_add('images'))"


@pytest.mark.real
@pytest.mark.parametrize(
    ("with_pip", "tool"), [(True, "{} -m pip install"), (False, "uv pip install --python {}")]
)
def test_the_environment_s_own_installer_is_named(
    with_pip: bool, tool: str, tmp_path: Path
) -> None:
    place = tmp_path / "an environment"
    venv.create(place, with_pip=False)
    if with_pip:
        site = next(place.glob("lib/python*/site-packages"))
        (site / "pip").mkdir()
        (site / "pip/__init__.py").touch()
    python = place / "bin/python"
    done = subprocess.run([python, "-c", ASK], cwd=ROOT, capture_output=True, text=True, check=True)
    assert shlex.split(done.stdout) == [
        *(word.replace("{}", str(python)) for word in tool.split()), "llm-doctor[images]",
    ]  # fmt: skip
