"""Releases that `doctor matrix update` found: kept for this user, and laid over the matrix.

One JSON file a domain, releases only. What ships with doctor comes first: a release that it
has by now is no longer taken from here.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from doctor.binaries.cache import user_folder
from doctor.errors import MatrixError, UsageError
from doctor.facts import Version
from doctor.matrix.model import EngineDomain, Release
from doctor.named_files import read_named, replace_file

SOURCE = "releases learnt by doctor matrix update"
_LIMIT = 32 << 20


class Learnt(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Releases of one domain, newest first, and the day of the newest."""

    as_of: str
    releases: tuple[Release, ...] = ()


def is_learnt(release: Release) -> bool:
    """True for a row that came from an index: its pins are known, its binaries are not."""
    return release.source[:1] == (SOURCE,)


def learnt_folder() -> Path | None:
    """This user's folder for what was learnt, or None without a usable home."""
    base = user_folder("XDG_CONFIG_HOME", ".config")
    return Path(base) / "llm-doctor" / "releases" if base else None


def learnt_files() -> tuple[Path, ...]:
    """Files of what was learnt; none that someone else owns or can write."""
    folder = learnt_folder()
    if folder is None:
        return ()
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return ()
    found = (folder / name for name in names if name.endswith(".json"))
    return tuple(path for path in found if _is_own(path))


def _is_own(path: Path) -> bool:
    try:
        status = path.stat()
    except OSError:
        return False
    is_file = stat.S_ISREG(status.st_mode) and status.st_size <= _LIMIT
    is_closed = not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return is_file and is_closed and status.st_uid == os.geteuid()


def read_learnt(path: Path) -> Learnt:
    """What a file holds; raises MatrixError for a damaged one."""
    try:
        return msgspec.json.decode(read_named(path), type=Learnt)
    except (OSError, msgspec.MsgspecError) as fault:
        raise MatrixError(
            f"{path} is damaged: {fault}", "remove it, and run doctor matrix update again"
        ) from None


def with_learnt(base: Any, path: Path) -> Any:
    """The domain with the releases that it does not have yet, newest first."""
    extra = read_learnt(path)
    if not isinstance(base, EngineDomain):
        return base
    known = {Version(row.version).low for row in base.releases}
    new = [_marked(row) for row in extra.releases if Version(row.version).low not in known]
    rows = sorted((*new, *base.releases), key=lambda r: Version(r.version).low, reverse=True)
    if not new:
        return base
    as_of = max(base.as_of, extra.as_of)
    return msgspec.structs.replace(base, as_of=as_of, releases=tuple(rows))


def _marked(row: Release) -> Release:
    return msgspec.structs.replace(row, source=(SOURCE, *row.source))


def write_learnt(domain: str, rows: tuple[Release, ...], today: str) -> bool:
    """Add rows to a domain's file, whole or not at all; False if it holds them already."""
    folder = learnt_folder()
    if folder is None:
        raise UsageError("there is no home to keep releases in", "set HOME or XDG_CONFIG_HOME")
    path = folder / f"{domain}.json"
    kept = {row.version: row for row in read_learnt(path).releases} if path.exists() else {}
    new = [row for row in rows if row.version not in kept]
    if not new:
        return False
    ordered = sorted((*new, *kept.values()), key=lambda r: Version(r.version).low, reverse=True)
    payload = msgspec.json.encode(Learnt(as_of=today, releases=tuple(ordered)))
    _write_whole(path, msgspec.json.format(payload, indent=1))
    return True


def _write_whole(path: Path, payload: bytes) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        replace_file(path, payload, 0o644)
    except OSError as fault:
        raise UsageError(
            f"cannot write {path}: {fault.strerror}", "make the folder writable"
        ) from None
