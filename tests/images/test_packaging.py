"""Recipes ship in the wheel and in the source archive, and are found from both."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from doctor.images.recipe import recipe_names

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.slow


def _unpack_wheel(path: Path, into: Path) -> Path:
    with zipfile.ZipFile(path) as archive:
        archive.extractall(into)  # noqa: S202 - our own
    return into


def _unpack_source(path: Path, into: Path) -> Path:
    with tarfile.open(path) as archive:
        archive.extraction_filter = getattr(tarfile, "data_filter", None)  # not before 3.11.4
        archive.extractall(into)  # noqa: S202 - our own
    return next(into.iterdir())


@pytest.mark.parametrize(
    ("kind", "ending", "unpack"),
    [("wheel", "*.whl", _unpack_wheel), ("sdist", "*.tar.gz", _unpack_source)],
)
def test_recipes_are_found(tmp_path: Path, kind: str, ending: str, unpack: object) -> None:
    assert callable(unpack)
    argv = [sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", str(tmp_path / "dist")]
    subprocess.run(argv, cwd=ROOT, check=True, capture_output=True)
    (built,) = (tmp_path / "dist").glob(ending)
    site = unpack(built, tmp_path / "site")
    done = subprocess.run(
        [sys.executable, "-m", "doctor", "image", "list", "--json"],
        cwd=site,
        env={**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache"), "PYTHONPATH": str(site)},
        check=True,
        capture_output=True,
        text=True,
    )
    rows = json.loads(done.stdout)["images"]
    assert {row["name"] for row in rows} == set(recipe_names())
    where = "import doctor.images.recipe as r; print(r.read_recipe('vllm-cpu').folder)"
    found = subprocess.run(
        [sys.executable, "-c", where], cwd=site, check=True, capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": str(site)},
    )  # fmt: skip
    assert found.stdout.startswith(str(tmp_path))
