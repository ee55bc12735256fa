"""Files that a person names: opened so that nothing is waited for and nothing has effects.

A FIFO without a writer would hang, and opening a device can do something. Pipes that the
shell made for this process (`<(nvidia-smi -q)`) are read to their end.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO

# What `<(command)` and standard input are called.
_OWN_PIPES = ("/dev/fd/", "/proc/self/fd/", "/dev/stdin")


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


def _need_regular(status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "not a regular file")
