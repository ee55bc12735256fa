"""An environment on a Python that the system lacks, brought by the real uv from files."""

from __future__ import annotations

import hashlib
import json
import platform
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from doctor.profile.managed_python import minor_of, program_of
from doctor.provision.locks import pythons_of
from doctor.provision.survey import read_facts
from doctor.provision.target import Target
from tests.provision.sandbox import Sandbox

pytestmark = pytest.mark.slow

_ASK = "import json, sys, sysconfig as s; print(json.dumps([sys.version.split()[0], " \
       "sys.base_prefix, s.get_path('stdlib'), s.get_config_var('LDLIBRARY') or '']))"  # fmt: skip


@dataclass(frozen=True)
class Other:
    """A Python of this machine that is none of the system's."""

    version: str
    prefix: Path
    modules: Path
    shared: str

    @property
    def minor(self) -> str:
        return ".".join(self.version.split(".")[:2])

    @property
    def name(self) -> str:
        return f"cpython-{self.version}-linux-{platform.machine()}-gnu"


def others() -> Iterator[Other]:
    """Pythons beside the system's: that of the tests, of pyenv, of a CI's tool cache."""
    homes = Path.home().glob(".pyenv/versions/3.*/bin/python3")
    candidates = [Path(sys.executable), *homes]
    for program in candidates:
        answer = subprocess.run(
            [program, "-I", "-c", _ASK], capture_output=True, text=True, check=False
        )
        if answer.returncode == 0:
            version, prefix, library, shared = json.loads(answer.stdout)
            yield Other(version, Path(prefix), Path(library), shared)


@pytest.fixture(scope="module")
def other() -> Other:
    system = pythons_of(read_facts(Target()))
    for found in others():
        if found.minor not in system and tuple(map(int, found.minor.split("."))) >= (3, 10):
            return found
    pytest.skip(f"no Python here but the system's: {', '.join(system)}")


def write_mirror(other: Other, folder: Path) -> Path:
    """Pack it as python-build-standalone does, and list it as uv does."""
    place = folder / "python"
    (place / "bin").mkdir(parents=True)
    shutil.copy2((other.prefix / f"bin/python{other.minor}").resolve(), place / "bin")
    (place / f"bin/python{other.minor}").chmod(0o755)
    skipped = shutil.ignore_patterns("test", "site-packages", "dist-packages", "__pycache__")
    library = place / f"lib/python{other.minor}"
    shutil.copytree(other.modules, library, ignore=skipped, symlinks=True)
    (library / "site-packages").mkdir(exist_ok=True)
    for shared in (other.prefix / "lib").glob(f"{other.shared}*" if other.shared else "none"):
        shutil.copy2(shared, place / "lib", follow_symlinks=False)
    archive = folder / "python.tar.gz"
    with tarfile.open(archive, "w:gz", compresslevel=1) as packed:
        packed.add(place, "python")
    major, minor, patch = map(int, other.version.split("."))
    row = {
        "name": "cpython", "arch": {"family": platform.machine(), "variant": None},
        "os": "linux", "libc": "gnu", "major": major, "minor": minor, "patch": patch,
        "prerelease": "", "url": archive.as_uri(), "variant": None, "build": "20261101",
        "sha256": hashlib.sha256(archive.read_bytes()).hexdigest(),
    }  # fmt: skip
    listing = folder / "downloads.json"
    listing.write_text(json.dumps({other.name: row}))
    return listing


def test_a_python_that_is_missing_is_brought(box: Sandbox, other: Other, tmp_path: Path) -> None:
    listing = write_mirror(other, tmp_path / "mirror")
    user = replace(box, extra={"UV_PYTHON_DOWNLOADS_JSON_URL": str(listing)})
    profile = user.profile()
    lock = tmp_path / "stack.lock"
    made = user.run_on((), "profile", "lock", profile, "--python", other.minor, "-o", lock)
    if made.status == 4 and "index" in made.err:
        pytest.skip(f"no package index: {made.err[:200]}")
    assert made.status == 0, made.err

    refused = user.run("apply", profile, "--yes", "--lock", lock, "--offline", user.wheels)
    assert refused.status == 1
    assert "With --offline none is fetched" in refused.out + refused.err

    applied = user.run("apply", profile, "--yes", "--lock", lock)
    assert applied.status == 0, applied.out + applied.err
    program = user.service / "pythons" / other.name / program_of(other.name)
    real = (user.service / "current/venv/bin/python").resolve()
    assert real == program.resolve()
    assert minor_of(other.name) == other.minor
    again = user.run("apply", profile, "--yes", "--lock", lock)
    assert "nothing to do" in again.out, again.err
    assert user.run("drift", profile).status == 0
