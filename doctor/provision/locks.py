"""Lock a profile: resolve its packages, and check its arguments against that very version."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec

from doctor.errors import UsageError
from doctor.facts import Facts
from doctor.matrix import Matrix
from doctor.profile import hub
from doctor.profile.image_file import fetch_image
from doctor.profile.lock import SCHEMA, Lock, read_lock, requirements_text, write_lock
from doctor.profile.locking import UnresolvedError, Wanted, download, resolve_packages
from doctor.profile.schema import Install, Model, Profile
from doctor.provision.image_lock import is_of_image, lock_image
from doctor.provision.launching import launch_of
from doctor.smoke.launch import launch_row
from doctor.smoke.secret import read_secret

# Levels of glibc that uv resolves for, as manylinux tags name them (PEP 600).
_LEVELS = (17, 28, *range(31, 41))
_USUAL = 28


def lock_profile(profile: Profile, python: str, platform: str, matrix: Matrix) -> Lock:
    """Resolve a profile. Raises UsageError, RemoteError, or LaunchError for a wrong argument."""
    if profile.install.method == "container":
        lock = lock_image(profile, platform.partition("-")[0], matrix)
    else:
        lock = _lock_packages(profile, python, platform, matrix)
    launch_of(profile, lock, "/model", matrix)
    return _with_model(lock, profile.model)


def hub_for(token: str) -> hub.Hub:
    """The hub of this user, with a token by reference. Raises UsageError."""
    if token.startswith("credential:"):
        raise UsageError(f"model.token: {token} is no file here", "name a file: file:/PATH")
    return hub.hub_of(os.environ, read_secret(token).value)


def _with_model(lock: Lock, model: Model) -> Lock:
    if model.source != "hub":
        return lock
    wish = hub.Wish(model.id, model.revision, model.format, model.files)
    return msgspec.structs.replace(lock, model=hub.pin_model(hub_for(model.token), wish))


def _lock_packages(profile: Profile, python: str, platform: str, matrix: Matrix) -> Lock:
    install = profile.install
    wanted = Wanted(install.requirements, python, platform, install.index, install.without)
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
        wanted=_wishes(install),
        packages=packages,
    )
    if not lock.version:
        raise UsageError(f"the packages of {profile.name} do not hold {row.package}", "add it")
    return lock


def lock_on(profile: Profile, python: str, platforms: tuple[str, ...], matrix: Matrix) -> Lock:
    """Resolve a profile for the first of some platforms for which there is a solution."""
    for platform in platforms[:-1]:
        with suppress(UnresolvedError):
            return lock_profile(profile, python, platform, matrix)
    return lock_profile(profile, python, platforms[-1], matrix)


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
    if wish.profile.install.method == "venv":
        platforms = (wish.platform,) if wish.platform else platforms_of(facts)
    else:
        platforms = (wish.platform or f"{facts.host.arch.value}-linux",)
    _expect_plain(python, platforms[0])
    lock = lock_on(wish.profile, python, platforms, matrix)
    path = Path(wish.output)
    before = read_lock(path) if path.is_file() else None
    is_new = write_lock(path, lock)
    files = _downloaded(lock, wish) if wish.download else ()
    return Locked(lock, wish.output, is_new, before, wish.download, files)


def _downloaded(lock: Lock, wish: Wish) -> tuple[str, ...]:
    """Fetch packages, image and model; beside a model the packages have a folder of their own."""
    from doctor.provision.means import model_folder, wheels_folder

    found: tuple[str, ...] = ()
    if lock.packages:
        wanted = Wanted((), lock.python or "", lock.platform or "", lock.index)
        found = download(requirements_text(lock), wanted, wheels_folder(lock, wish.download))
    if lock.image:
        image = fetch_image(lock.image, Path(wish.download))
        found += (str(image.path.relative_to(wish.download)),)
    if lock.model is not None:
        folder = model_folder(lock.model, wish.download)
        folder.mkdir(parents=True, exist_ok=True)
        hub.fetch_model(hub_for(wish.profile.model.token), lock.model, folder)
        found += tuple(file.name for file in lock.model.files)
    return found


def _facts_for(wish: Wish) -> Facts:
    """This machine's facts, if they are needed."""
    from doctor.provision.survey import read_facts
    from doctor.provision.target import Target

    is_image = wish.profile.install.method == "container"
    known = wish.platform and (is_image or wish.python or wish.profile.install.python)
    return Facts() if known else read_facts(Target())


def _expect_plain(python: str, platform: str) -> None:
    if python and not re.fullmatch(r"3\.[0-9]{1,2}", python):
        raise UsageError(f"--python {python[:40]!r} is no minor version", "write 3.12")
    if not re.fullmatch(r"(x86_64|aarch64)-[a-z0-9_-]{1,40}", platform):
        raise UsageError(f"--platform {platform[:60]!r}", "write x86_64-manylinux_2_28")


def _wishes(install: Install) -> tuple[str, ...]:
    """What a profile wants of packages, as a lock notes it: a minus leaves a name out."""
    return (*install.requirements, *(f"-{name}" for name in install.without))


def is_for(lock: Lock, profile: Profile) -> bool:
    """Tell whether a lock was made from what the profile wants now."""
    same = (profile.name, _wishes(profile.install), profile.install.index)
    if (lock.profile, lock.wanted, lock.index) != same:
        return False
    return is_of_image(lock, profile.install.image) and _is_of_model(lock, profile.model)


def _is_of_model(lock: Lock, model: Model) -> bool:
    if model.source != "hub" or lock.model is None:
        return model.source != "hub" and lock.model is None
    locked = lock.model
    return (locked.id, locked.wanted, locked.pick) == (model.id, model.revision, model.files)


def platforms_of(facts: Facts) -> tuple[str, ...]:
    """Platforms of a machine: its architecture, with levels of glibc to try one after the other.

    First the level that most wheels are made for, then the newest that the machine has, as
    some packages are made for a newer one alone. Raises UsageError if either is unknown.
    """
    arch, libc = facts.host.arch.value, facts.host.libc.value
    if libc is not None and libc.kind != "glibc":
        raise UsageError(f"no packages are made for {libc.kind} here", "lock elsewhere")
    if arch not in ("x86_64", "aarch64") or libc is None or libc.version is None:
        raise UsageError("architecture or libc of the machine is not known", "name --platform")
    minor = libc.version.release[1] if len(libc.version.release) > 1 else 0
    newest = max((level for level in _LEVELS if level <= minor), default=_LEVELS[0])
    levels = dict.fromkeys((min(_USUAL, newest), newest))
    return tuple(f"{arch}-manylinux_2_{level}" for level in levels)


def pythons_of(facts: Facts) -> dict[str, str]:
    """Pythons of the system by minor version, as far as doctor has found them."""
    found: dict[str, str] = {}
    for scope in facts.scopes:
        python = scope.python.value
        if scope.kind in ("host", "system") and python and python.executable:
            minor = ".".join(map(str, python.version.release[:2]))
            found.setdefault(minor, python.executable)
    return found
