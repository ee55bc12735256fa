"""Files that a person names: nothing is waited for, and devices stay what they are.

A FIFO without a writer would hang, and opening a device can do something. Pipes that the
shell made for this process (`<(nvidia-smi -q)`) are read to their end. To put a new file in
the place of /dev/null, as root can, would break a machine.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Collection
from pathlib import Path
from typing import BinaryIO

# What `<(command)` and standard input are called.
_OWN_PIPES = ("/dev/fd/", "/proc/self/fd/", "/dev/stdin")
_LIVE = ("/dev/", "/proc/")


def open_named(path: str | Path) -> BinaryIO:
    """Open a regular file for reading; raises OSError for anything else."""
    if str(path).startswith(_OWN_PIPES):
        return open(path, "rb")
    # Looked at before it is opened: opening a device can have effects.
    _need_regular(os.stat(path))
    file = os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb")
    try:
        # It may have become something else in between.
        _need_regular(os.fstat(file.fileno()))
    except OSError:
        file.close()
        raise
    return file


def read_named(path: str | Path, limit: int = 64 << 20) -> bytes:
    """At most `limit` bytes of a regular file; raises OSError."""
    with open_named(path) as file:
        return file.read(limit)


def read_below(path: str | Path, roots: Collection[str], limit: int = 64 << 20) -> bytes | None:
    """A regular file that lies below one of these real folders; None for any other.

    What was opened is asked where it lies, so that a link which is put there meanwhile leads
    nowhere else.
    """
    try:
        with open_named(path) as file:
            opened = f"/proc/self/fd/{file.fileno()}"
            real = os.path.realpath(opened if os.path.islink(opened) else path)
            inside = any(os.path.commonpath((root, real)) == root for root in roots)
            return file.read(limit) if inside else None
    except (OSError, ValueError):
        return None


def _need_regular(status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "not a regular file")


def write_named(path: str | Path, text: str) -> None:
    """Write a file whole or not at all; raises OSError.

    A link stays a link. A device or pipe, such as /dev/stderr, is written to as it is.
    """
    target = Path(path)
    if str(target).startswith(_LIVE) or (target.exists() and not target.is_file()):
        _write_through(target, text)
    else:
        replace_file(Path(os.path.realpath(target)), text.encode("utf-8"))


def _write_through(target: Path, text: str) -> None:
    # Without O_NONBLOCK, opening a pipe that nobody reads would wait for ever.
    handle = os.open(target, os.O_WRONLY | os.O_NONBLOCK)
    os.set_blocking(handle, True)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(text)


def replace_file(target: Path, data: bytes, mode: int = 0o666) -> None:
    """Put a new file in the place of `target`, whole or not at all; raises OSError.

    The folder may be another user's: nothing that lies in it is opened.
    """
    scratch = target.with_name(f".{target.name[:200]}.{os.urandom(6).hex()}.part")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        with os.fdopen(os.open(scratch, flags, mode), "wb") as file:
            file.write(data)
        os.replace(scratch, target)
    except BaseException:  # Ctrl-C too
        with contextlib.suppress(OSError):
            scratch.unlink()
        raise
