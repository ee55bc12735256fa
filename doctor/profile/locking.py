"""Make a lock: uv resolves what a profile wants against the user's own package index."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from doctor.errors import DoctorError, RemoteError, UsageError
from doctor.extras import how_to_add
from doctor.profile.index import index_environment, pip_settings
from doctor.profile.lock import LockedPackage

RESOLVE_S, DOWNLOAD_S = 600, 3600
_PIN = re.compile(r"^([A-Za-z0-9][A-Za-z0-9._-]*)==([^\s;\\]+)")
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")
# A disk that is full, read-only or closed, in the words of uv (Rust) and of pip (Python).
_DISK = re.compile(r"(os error |\[Errno )(13|28|30|122)[])]")
_ROOM = "make room there, or name a folder that can be written: XDG_CACHE_HOME=, TMPDIR="
_SPOKEN = re.compile(r"//[^/@\s]*@")


class UnresolvedError(RemoteError):
    """No set of packages meets what is wanted, or the index does not say."""


@dataclass(frozen=True)
class Wanted:
    """What to resolve: requirements, for one Python and platform; `index` is one more to ask.

    Distributions named in `without` are left out, whoever requires them.
    """

    requirements: tuple[str, ...]
    python: str
    platform: str
    index: str = ""
    without: tuple[str, ...] = ()


def resolve_packages(wanted: Wanted) -> tuple[LockedPackage, ...]:
    """Every distribution of the closure with the hashes of all its wheels.

    Raises RemoteError with uv's own words if there is no solution or no index.
    """
    options = ["--generate-hashes", "--no-header", "--no-annotate", "--quiet"]
    target = ["--python-version", wanted.python, "--python-platform", wanted.platform]
    index = ["--index", wanted.index] if wanted.index else []
    with tempfile.TemporaryDirectory(prefix="doctor-lock-") as folder:
        asked = Path(folder, "wanted.in")
        asked.write_text("".join(f"{line}\n" for line in wanted.requirements))
        never = Path(folder, "without.in")
        never.write_text("".join(f"{name} ; python_version < '3'\n" for name in wanted.without))
        index += ["--overrides", str(never)] if wanted.without else []
        command = [uv_program(), "pip", "compile", *options, *target, *index]
        text = _run([*command, "--only-binary", ":all:", str(asked)], RESOLVE_S, "resolve")
    return parse_pins(text)


def parse_pins(text: str) -> tuple[LockedPackage, ...]:
    """Read pins with hashes, as uv and pip-compile write them, by name.

    Raises UsageError for a pin without a hash: it could not be installed safely.
    """
    found = []
    for entry in text.replace("\\\n", " ").splitlines():
        pin = _PIN.match(entry)
        if pin is None:
            continue
        hashes = tuple(sorted(set(_HASH.findall(entry))))
        if not hashes:
            raise UsageError(f"{pin[1]}=={pin[2]} has no sha256 in this index", "use another index")
        name = re.sub(r"[-_.]+", "-", pin[1]).lower()
        found.append(LockedPackage(name=name, version=pin[2], sha256=hashes))
    return tuple(sorted(found, key=lambda package: package.name))


def download(requirements: str, wanted: Wanted, folder: Path) -> tuple[str, ...]:
    """Fetch the wheels of locked requirements for their platform; the names of the files.

    Files whose hash is another one are refused. Raises RemoteError.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="doctor-lock-") as scratch:
        pins = Path(scratch, "requirements.txt")
        pins.write_text(requirements)
        index = ["--extra-index-url", wanted.index] if wanted.index else []
        target = ["--python-version", wanted.python, *_pip_platforms(wanted.platform)]
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-input", "--no-deps"]
        checked = ["--require-hashes", "--only-binary", ":all:", "--dest", str(folder)]
        _run([*command, *checked, *target, *index, "-r", str(pins)], DOWNLOAD_S, "download")
    return tuple(sorted(path.name for path in folder.glob("*.whl")))


def _pip_platforms(platform: str) -> list[str]:
    """All tags that a machine of this platform takes: pip takes a named tag literally."""
    arch, _, libc = platform.partition("-")
    newest = int(libc.rpartition("_")[2]) if libc.startswith("manylinux_2_") else 17
    tags = [f"manylinux_2_{minor}_{arch}" for minor in range(newest, 4, -1)]
    old = [f"manylinux2014_{arch}", f"manylinux2010_{arch}", f"manylinux1_{arch}"]
    return [word for tag in (*tags, *old, f"linux_{arch}") for word in ("--platform", tag)]


def uv_program() -> str:
    """The path of uv; raises DoctorError with the command that installs it."""
    try:
        from uv import find_uv_bin

        return str(find_uv_bin())
    except (ImportError, FileNotFoundError):
        found = shutil.which("uv")
    if found:
        return found
    raise DoctorError("uv is not installed", how_to_add("provision"))


def index_settings() -> dict[str, str]:
    """Variables for uv that name this user's index; they may hold passwords."""
    return index_environment(os.environ, pip_settings())


def _run(command: Sequence[str], limit_s: int, verb: str) -> str:
    environment = {**os.environ, **index_settings()}
    try:
        answer = subprocess.run(
            command, capture_output=True, text=True, timeout=limit_s, env=environment, check=False
        )
    except subprocess.TimeoutExpired:
        raise RemoteError(f"the index did not {verb} within {limit_s} s", "try again") from None
    if answer.returncode:
        said = _SPOKEN.sub("//***@", answer.stderr.strip())[-1500:]
        if _DISK.search(said):
            raise DoctorError(f"cannot {verb} the packages:\n{said}", _ROOM)
        kind = UnresolvedError if verb == "resolve" else RemoteError
        raise kind(f"cannot {verb} the packages:\n{said}", "check the index and the versions")
    return answer.stdout
