"""Lock a profile: resolve its packages, and check its arguments against that very version."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from doctor.errors import UsageError
from doctor.facts import Facts, Version
from doctor.matrix import Matrix
from doctor.profile.lock import SCHEMA, Lock, read_lock, requirements_text, write_lock
from doctor.profile.locking import Wanted, download, resolve_packages
from doctor.profile.schema import Profile
from doctor.provision.service import launch_of
from doctor.smoke.launch import launch_row

# Levels of glibc that uv resolves for, as manylinux tags name them (PEP 600).
_LEVELS = (17, 28, *range(31, 41))
_PINNED = "@sha256:"


def lock_profile(profile: Profile, python: str, platform: str, matrix: Matrix) -> Lock:
    """Resolve a profile. Raises UsageError, RemoteError, or LaunchError for a wrong argument."""
    if profile.install.method == "container":
        return _lock_image(profile)
    install = profile.install
    wanted = Wanted(install.requirements, python, platform, install.index)
    packages = resolve_packages(wanted)
    row = launch_row(profile.engine.name, None, matrix)
    lock = Lock(
        schema=SCHEMA,
        profile=profile.name,
        engine=profile.engine.name,
        version=next((p.version for p in packages if p.name == row.package), ""),
        python=python,
        platform=platform,
        index=install.index,
        wanted=install.requirements,
        packages=packages,
    )
    if not lock.version:
        raise UsageError(f"the packages of {profile.name} do not hold {row.package}", "add it")
    launch_of(profile, lock, "/model", matrix, "/environment")
    return lock


@dataclass(frozen=True)
class Wish:
    """What a person wants locked.

    For which Python and platform ("": those of this machine), into which file, and where to
    put the packages themselves ("": nowhere).
    """

    profile: Profile
    python: str = ""
    platform: str = ""
    output: str = "stack.lock"
    download: str = ""


@dataclass(frozen=True)
class Locked:
    """A lock as it was written; `before` is what the file held, None if nothing."""

    lock: Lock
    path: str
    is_new: bool
    before: Lock | None = None
    download: str = ""
    files: tuple[str, ...] = ()


def lock_to_file(wish: Wish, matrix: Matrix) -> Locked:
    """Lock a profile into a file. Raises UsageError, RemoteError or LaunchError."""
    facts = _facts_for(wish)
    python = wish.python or wish.profile.install.python or next(iter(pythons_of(facts)), "")
    platform = wish.platform
    if wish.profile.install.method == "venv":
        platform = platform or platform_of(facts)
        _expect_plain(python, platform)
    lock = lock_profile(wish.profile, python, platform, matrix)
    path = Path(wish.output)
    before = read_lock(path) if path.is_file() else None
    is_new = write_lock(path, lock)
    files: tuple[str, ...] = ()
    if wish.download and lock.packages:
        wanted = Wanted((), python, platform, lock.index)
        files = download(requirements_text(lock), wanted, Path(wish.download))
    return Locked(lock, wish.output, is_new, before, wish.download, files)


def _facts_for(wish: Wish) -> Facts:
    """This machine's facts, if they are needed."""
    from doctor.provision.survey import read_facts
    from doctor.provision.target import Target

    known = wish.platform and (wish.python or wish.profile.install.python)
    return Facts() if known or wish.profile.install.method != "venv" else read_facts(Target())


def _expect_plain(python: str, platform: str) -> None:
    if python and not re.fullmatch(r"3\.[0-9]{1,2}", python):
        raise UsageError(f"--python {python[:40]!r} is no minor version", "write 3.12")
    if not re.fullmatch(r"(x86_64|aarch64)-[a-z0-9_-]{1,40}", platform):
        raise UsageError(f"--platform {platform[:60]!r}", "write x86_64-manylinux_2_28")


def _lock_image(profile: Profile) -> Lock:
    image = profile.install.image
    if _PINNED not in image:
        raise UsageError(
            f"{image} names no digest, so it may be another image tomorrow",
            "ask your registry for the digest (docker buildx imagetools inspect IMAGE) and write "
            "it into the profile: NAME@sha256:...",
        )
    return Lock(schema=SCHEMA, profile=profile.name, engine=profile.engine.name, image=image)


def is_for(lock: Lock, profile: Profile) -> bool:
    """Tell whether a lock was made from what the profile wants now."""
    same = (profile.name, profile.install.requirements, profile.install.index)
    return (lock.profile, lock.wanted, lock.index) == same


def platform_of(facts: Facts) -> str:
    """The platform of a machine: its architecture, and a level of glibc that it has.

    Raises UsageError if either is unknown.
    """
    arch, libc = facts.host.arch.value, facts.host.libc.value
    if libc is not None and libc.kind != "glibc":
        raise UsageError(f"no packages are made for {libc.kind} here", "lock elsewhere")
    if arch not in ("x86_64", "aarch64") or libc is None or libc.version is None:
        raise UsageError("architecture or libc of the machine is not known", "name --platform")
    return f"{arch}-manylinux_2_{_level(libc.version, _LEVELS)}"


def _level(version: Version, levels: Iterable[int]) -> int:
    """28 where the machine has it, as most wheels are made for it; else the highest it has."""
    minor = version.release[1] if len(version.release) > 1 else 0
    return min(28, max((level for level in levels if level <= minor), default=17))


def pythons_of(facts: Facts) -> dict[str, str]:
    """Pythons of the system by minor version, as far as doctor has found them."""
    found: dict[str, str] = {}
    for scope in facts.scopes:
        python = scope.python.value
        if scope.kind in ("host", "system") and python and python.executable:
            minor = ".".join(map(str, python.version.release[:2]))
            found.setdefault(minor, python.executable)
    return found
