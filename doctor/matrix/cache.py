"""Compiled domains on disk: JSON under a first line with its source's digest and its own.

A bit that rots in it would be another figure in a verdict.
"""

from __future__ import annotations

import hashlib
import os
import stat
from contextlib import suppress
from pathlib import Path

from doctor.named_files import open_named, replace_file


def cache_folder() -> Path | None:
    """The user's cache folder for compiled domains, or None without a usable home."""
    from doctor.binaries.cache import user_folder  # a wheel carries its domains compiled

    base = user_folder("XDG_CACHE_HOME", ".cache")
    return Path(base) / "llm-doctor" / "matrix" if base else None


def read_compiled(path: Path, digest: str, own_only: bool = False) -> bytes | None:
    """The JSON of a compiled file if it is whole and was made from the source of that digest.

    With `own_only` a file that someone else owns or can write counts as absent: what
    the matrix says ends up in commands that people run.
    """
    try:
        with open_named(path) as file:
            if own_only and not _is_own(os.fstat(file.fileno())):
                return None
            head, _, payload = file.read().partition(b"\n")
    except OSError:
        return None
    return payload if head == _head(payload, digest) else None


def _head(payload: bytes, digest: str) -> bytes:
    return f"{digest} {hashlib.sha256(payload).hexdigest()}".encode()


def _is_own(status: os.stat_result) -> bool:
    return status.st_uid == os.geteuid() and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def write_compiled(path: Path, payload: bytes, digest: str) -> None:
    """Write a compiled domain whole or not at all; an unwritable folder is no fault."""
    from doctor.binaries.cache import is_trusted_place

    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        if is_trusted_place(str(path.parent)):
            replace_file(path, _head(payload, digest) + b"\n" + payload, 0o644)
