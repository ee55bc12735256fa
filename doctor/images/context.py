"""The folder that a builder is given: everything that goes into the image, and nothing else.

Packages are fetched here, with this user's index and certificates, and held to their hashes.
The build itself has no network, so nothing of a site can be left in a layer.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from doctor.errors import RemoteError, UsageError
from doctor.images.mirror import debian_mirror
from doctor.images.recipe import Recipe, SystemPackage, pip_requirement
from doctor.profile.lock import Lock, lock_text, requirements_text
from doctor.profile.locking import Wanted, download
from doctor.profile.web import Call, get

# Times of files are part of a layer: these are the same in every build.
TIME_S = 315_532_800
_MAX_PACKAGE = 64 << 20


def write_context(recipe: Recipe, folder: Path) -> None:
    """Fill an empty folder.

    Raises RemoteError where a package cannot be had, UsageError for a recipe without a lock.
    """
    (folder / "Containerfile").write_text(recipe.containerfile, encoding="utf-8")
    programs = dict(recipe.programs)
    if recipe.spec.content == "wheels":
        lock = _lock(recipe)
        programs["stack.lock"] = lock_text(lock).encode()
        _fetch(lock, folder)
        _fetch_system(recipe.spec.packages, folder / "system")
    for name, data in programs.items():
        target = folder / "doctor" / name
        target.parent.mkdir(exist_ok=True)
        target.write_bytes(data)
    _settle(folder)


def _lock(recipe: Recipe) -> Lock:
    if recipe.lock is None or not recipe.lock.packages:
        spec = recipe.spec
        wanted = f"{spec.profile} --python {spec.python} --platform {spec.platform}"
        raise UsageError(
            f"{spec.name} has no lock of its own",
            f"doctor profile lock {wanted} -o stack.lock, then build with --lock stack.lock",
        )
    return recipe.lock


def _fetch(lock: Lock, folder: Path) -> None:
    """The wheels of the lock, and pip."""
    wanted = Wanted((), lock.python or "", lock.platform or "", lock.index)
    text = requirements_text(lock)
    (folder / "requirements.txt").write_text(text, encoding="utf-8")
    download(text, wanted, folder / "wheels")
    download(pip_requirement(), wanted, folder / "wheels" / "pip")


def _fetch_system(packages: tuple[SystemPackage, ...], folder: Path) -> None:
    """Packages of Debian, by their paths on a mirror and their hashes."""
    folder.mkdir()
    mirror = debian_mirror() if packages else ""
    for package in packages:
        url = f"{mirror}/{package.path}"
        reply, data = get(Call(url), _MAX_PACKAGE)
        if reply.status != 200:
            raise RemoteError(f"{url}: answers {reply.status}", "is it still published?")
        if hashlib.sha256(data).hexdigest() != package.sha256:
            raise RemoteError(f"{url}: not the file that is locked", "do not use it")
        (folder / f"{package.name}.deb").write_bytes(data)


def _settle(folder: Path) -> None:
    """Give every file the same rights and time, whatever this machine's are."""
    for place, folders, files in os.walk(folder):
        for name in (*folders, *files):
            path = os.path.join(place, name)
            os.chmod(path, 0o755 if name in folders else 0o644)
            os.utime(path, (TIME_S, TIME_S))
