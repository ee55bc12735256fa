"""Files of this machine: opened so that nothing blocks and nothing but regular files is read.

`path` is where the file lies on this machine, `at` how its host calls it.
"""

from __future__ import annotations

import errno
import os
import stat as modes
from typing import Any

from doctor.facts import Missing, Reading, missing, seen
from doctor.probes import followed
from doctor.probes.host import DiskUsage, FileStat

_MIB = 1 << 20
_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_ABSENT = (errno.ENOENT, errno.ENOTDIR)
_FORBIDDEN = (errno.EACCES, errno.EPERM)


def why(error: OSError) -> Missing:
    """Tell the reason behind an error of the operating system."""
    if error.errno in _ABSENT:
        return Missing.NOT_THERE
    return Missing.NOT_PERMITTED if error.errno in _FORBIDDEN else Missing.NOT_READABLE


def read_text(path: str, at: str, limit: int, asked: str = "") -> Reading[str]:
    """Text of a regular file that is not a link; undecodable bytes are replaced.

    `asked` is the path before its links were followed.
    """
    try:
        # Looked at before it is opened: opening a device can have effects.
        if not modes.S_ISREG(os.lstat(path).st_mode):
            return missing(Missing.NOT_READABLE, at)
        return seen(_read(path, limit, asked or path).decode("utf-8", "replace"), at)
    except OSError as error:
        return missing(why(error), at)
    except ValueError:  # a NUL in the path
        return missing(Missing.NOT_THERE, at)


def _read(path: str, limit: int, asked: str) -> bytes:
    handle = os.open(path, _FLAGS)
    try:
        if not modes.S_ISREG(os.fstat(handle).st_mode):
            raise OSError(errno.EINVAL, "not a regular file")
        if not followed.is_open(handle, asked):
            raise OSError(errno.EACCES, "a link of another user leads to it")
        chunks = []
        while limit > 0:
            chunk = os.read(handle, min(limit, _MIB))
            if not chunk:
                break
            chunks.append(chunk)
            limit -= len(chunk)
        return b"".join(chunks)
    finally:
        os.close(handle)


def list_dir(path: str, at: str) -> Reading[tuple[str, ...]]:
    """Sorted names in a folder."""
    try:
        return seen(tuple(sorted(map(clean_name, os.listdir(path)))), at)
    except OSError as error:
        return missing(why(error), at)
    except ValueError:
        return missing(Missing.NOT_THERE, at)


def link(path: str, at: str) -> Reading[str]:
    """Where a link leads; "" for what is no link."""
    try:
        return seen(clean_name(os.readlink(path)), at)
    except OSError as error:
        return seen("", at) if error.errno == errno.EINVAL else missing(why(error), at)
    except ValueError:
        return missing(Missing.NOT_THERE, at)


def clean_name(name: str) -> str:
    """The name as text that any encoder accepts (Python marks odd bytes with surrogates)."""
    return name if name.isascii() else os.fsencode(name).decode("utf-8", "replace")


def stat(path: str, at: str) -> Reading[FileStat]:
    """Stat of a file."""
    try:
        found = os.stat(path)
    except OSError as error:
        return missing(why(error), at)
    except ValueError:
        return missing(Missing.NOT_THERE, at)
    times = (found.st_mtime_ns, found.st_ctime_ns)
    who = (found.st_mode, found.st_uid, found.st_gid)
    return seen(FileStat(found.st_dev, found.st_ino, found.st_size, *times, *who), at)


def disk(path: str, at: str) -> Reading[DiskUsage]:
    """Size of the file system that holds a path."""
    try:
        found = os.statvfs(path)
    except OSError as error:
        return missing(why(error), at)
    except ValueError:
        return missing(Missing.NOT_THERE, at)
    block = found.f_frsize
    usage = DiskUsage(found.f_blocks * block // _MIB, found.f_bavail * block // _MIB)
    return seen(usage, at)


def relay(reading: Reading[Any], at: str = "") -> Reading[Any]:
    """The same missing reason for a fact that was to be read from it."""
    return missing(reading.missing or Missing.NOT_READABLE, at or reading.at)
