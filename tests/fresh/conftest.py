"""Images of bare Debians, and what a newcomer installs from: made once for all tests."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fresh.box import ROOT, SUITES, image_of
from tests.provision.machine import docker_engine


@pytest.fixture(scope="package")
def images(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Names of the images by suite."""
    folder = tmp_path_factory.mktemp("suites")
    with docker_engine():
        yield {suite: image_of(suite, folder) for suite in SUITES}


@pytest.fixture(scope="package")
def artefacts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The wheel and the sdist of what is committed, by ending."""
    folder = tmp_path_factory.mktemp("artefacts")
    source = folder / "source"
    source.mkdir()
    archive = subprocess.run(
        ["git", "archive", "--format=tar", "HEAD"], cwd=ROOT, capture_output=True, check=True
    ).stdout
    subprocess.run(["tar", "-xf", "-", "-C", str(source)], input=archive, check=True)
    build = "from hatchling.build import build_sdist, build_wheel; f = {}; print(f(sys.argv[1]))"
    found = {}
    for ending, function in (("whl", "build_wheel"), ("gz", "build_sdist")):
        command = [sys.executable, "-c", f"import sys; {build.format(function)}", str(folder)]
        done = subprocess.run(command, cwd=source, capture_output=True, text=True, check=True)
        found[ending] = folder / done.stdout.split()[-1]
    return found
