"""The matrix is found, compiled, from a checkout, an sdist and an installed wheel."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from doctor.matrix import load_matrix
from doctor.matrix.load import DATA

ROOT = Path(__file__).parent.parent.parent
pytestmark = pytest.mark.slow

ASK = """
import json, doctor
from doctor.matrix import load_matrix
from doctor.facts import Version
matrix = load_matrix()
print(json.dumps({
    "at": doctor.__file__,
    "version": matrix.version,
    "vllm": str(matrix.newest("vllm")),
    "floor": matrix.family(Version("12.8")).min_driver,
}))
"""


def build(source: Path, into: Path) -> None:
    argv = [sys.executable, "-m", "hatchling", "build", "-d", str(into)]
    subprocess.run(argv, cwd=source, check=True, capture_output=True)


def answer(root: Path, cache: Path) -> dict[str, str]:
    """What a doctor that lies in `root` answers, with an empty cache folder."""
    env = {**os.environ, "PYTHONPATH": str(root), "XDG_CACHE_HOME": str(cache)}
    argv = [sys.executable, "-c", ASK]
    done = subprocess.run(argv, env=env, cwd=cache, check=True, capture_output=True, text=True)
    found: dict[str, str] = json.loads(done.stdout)
    assert Path(found.pop("at")).is_relative_to(root)
    return found


@pytest.fixture(scope="module")
def artefacts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    build(ROOT, folder)
    return folder


@pytest.fixture
def expected() -> dict[str, str]:
    matrix = load_matrix()
    return {"version": matrix.version, "vllm": str(matrix.newest("vllm")), "floor": "525.60.13"}


def installed(artefacts: Path, into: Path) -> Path:
    wheel = next(artefacts.glob("*.whl"))
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(into)  # noqa: S202 - our own wheel
    return into


def test_from_a_wheel_without_compiling(
    artefacts: Path, tmp_path: Path, expected: dict[str, str]
) -> None:
    root, cache = installed(artefacts, tmp_path / "site"), tmp_path / "cache"
    cache.mkdir()
    assert answer(root, cache) == expected
    assert list(cache.iterdir()) == []
    compiled = {path.stem for path in (root / "doctor" / "matrix" / "compiled").iterdir()}
    assert compiled == {path.stem for path in DATA.glob("*.yaml")} | {"names"}


def test_from_an_sdist_and_from_its_wheel(
    artefacts: Path, tmp_path: Path, expected: dict[str, str]
) -> None:
    with tarfile.open(next(artefacts.glob("*.tar.gz"))) as archive:
        archive.extraction_filter = getattr(tarfile, "data_filter", None)  # not before 3.11.4
        archive.extractall(tmp_path)  # noqa: S202 - our own
    source = next(tmp_path.glob("llm_doctor-*"))
    cache = tmp_path / "cache"
    cache.mkdir()
    assert answer(source, cache) == expected
    build(source, tmp_path / "again")
    again = installed(tmp_path / "again", tmp_path / "site")
    assert answer(again, cache) == expected


def test_top_level_folders_travel_in_the_wheel(artefacts: Path, tmp_path: Path) -> None:
    root = installed(artefacts, tmp_path / "site")
    for folder in ("profiles", "playbooks", "images"):
        if (ROOT / folder).is_dir():
            assert any((root / "doctor" / "_resources" / folder).iterdir())
