"""Scan what a person points at: one file, a wheel, a tar archive or a folder."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass

from doctor.binaries import archives
from doctor.binaries.archives import Progress, WheelInfo, is_library
from doctor.binaries.ascend import socs_of_paths
from doctor.binaries.contents import Contents, read_file
from doctor.binaries.sources import BinaryUnreadable, open_file

_TAR = (".tar", ".tar.gz", ".tgz", ".tar.xz", ".tar.bz2")
_MAX_FILES = 100_000


@dataclass(frozen=True)
class Scanned:
    """One library that was read: its path (or name in the archive) and what is in it."""

    path: str
    contents: Contents


@dataclass(frozen=True)
class Scan:
    """What a scan saw. `kind` is file, wheel, archive or folder.

    `socs` are the Ascend chips that kernel folders are named after; `incomplete` says
    why files may be missing from the list.
    """

    path: str
    kind: str
    files: tuple[Scanned, ...] = ()
    wheel: WheelInfo = WheelInfo()
    socs: tuple[str, ...] = ()
    incomplete: str = ""


def ignore_progress(done: int, total: int, name: str) -> None:
    """Show nothing."""


def scan(path: str, progress: Progress = ignore_progress) -> Scan:
    """Read everything under `path`; raise `BinaryUnreadable` if it cannot be read at all."""
    if os.path.isdir(path):
        return _scan_folder(path, progress)
    if path.lower().endswith((".whl", ".zip")):
        return _scan_wheel(path, progress)
    if path.lower().endswith(_TAR):
        return _scan_tar(path, progress)
    contents = read_file(path, thorough=True)
    if contents.unreadable:
        raise BinaryUnreadable(contents.unreadable)
    return Scan(path, "file", (Scanned(path, contents),))


def _scan_wheel(path: str, progress: Progress) -> Scan:
    with archives.open_wheel(path) as wheel:
        files = tuple(Scanned(*found) for found in wheel.read_libraries(progress))
        return Scan(path, "wheel", files, wheel.info(), socs_of_paths(wheel.names))


def _scan_tar(path: str, progress: Progress) -> Scan:
    files: list[Scanned] = []
    incomplete = ""
    with archives.reported(), open(path, "rb") as stream:
        try:
            for name, contents in archives.read_tar(stream, progress):
                files.append(Scanned(name, contents))
        except BinaryUnreadable as reason:
            if not files:
                raise
            incomplete = str(reason)
    return Scan(path, "archive", tuple(files), incomplete=incomplete)


def _scan_folder(path: str, progress: Progress) -> Scan:
    found = sorted(_libraries(path))
    kept, total = found[:_MAX_FILES], sum(size for _, size in found[:_MAX_FILES])
    files, done = [], 0
    for name, size in kept:
        progress(done, total, name)
        files.append(Scanned(name, read_file(name, thorough=True)))
        done += size
    progress(total, total, "")
    incomplete = "" if len(found) == len(kept) else f"only the first {_MAX_FILES} files were read"
    socs = socs_of_paths(folder + "/" for folder, _, _ in os.walk(path))
    return Scan(path, "folder", tuple(files), socs=socs, incomplete=incomplete)


def _libraries(path: str) -> Iterator[tuple[str, int]]:
    """Path and size of the regular files below a folder that may hold code; no links followed."""
    for folder, _, names in os.walk(path):
        for name in names:
            full = os.path.join(folder, name)
            try:
                status = os.lstat(full)
            except OSError:
                continue
            if stat.S_ISREG(status.st_mode) and _is_wanted(full, name, status.st_mode):
                yield full, status.st_size


def _is_wanted(path: str, name: str, mode: int) -> bool:
    if is_library(name):
        return True
    if not mode & 0o111 or "." in name:
        return False
    try:
        with open_file(path) as source:
            return source.size > 4 and source.read(0, 4) == b"\x7fELF"
    except BinaryUnreadable:
        return False
