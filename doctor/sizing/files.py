"""Reading headers of model files: regular files only, bounded, never mapped."""

from __future__ import annotations

import os
import stat
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from doctor.errors import UsageError

_BUFFER = 1 << 20
_TEXT_LIMIT = 32 << 20
# A header of the largest published files is below 64 MiB.
_HEADER_LIMIT = 512 << 20
_NEW_COPY = "fetch the file again, or name another"


class Header:
    """Reads forward through the header of one file; every read past its end is an error."""

    def __init__(self, handle: int, path: Path) -> None:
        self._file = os.fdopen(handle, "rb", _BUFFER)
        self.path = path
        self.size = os.fstat(handle).st_size
        self.position = 0

    @property
    def left(self) -> int:
        """Bytes from here to the end of the file."""
        return self.size - self.position

    def take(self, count: int, what: str) -> bytes:
        """The next bytes; raises UsageError where the file ends before them."""
        self._advance(count, what)
        data = self._file.read(count)
        if len(data) != count:
            raise self.fault(f"ends inside of {what}")
        return data

    def skip(self, count: int, what: str) -> None:
        """Go past bytes that nobody needs."""
        self._advance(count, what)
        self._file.seek(count, os.SEEK_CUR)

    def number(self, form: str, what: str) -> int:
        """A little-endian whole number of that struct format."""
        value: int = struct.unpack(f"<{form}", self.take(struct.calcsize(form), what))[0]
        return value

    def fault(self, message: str) -> UsageError:
        """An error that names the file."""
        return UsageError(f"{self.path}: {message}", _NEW_COPY)

    def _advance(self, count: int, what: str) -> None:
        if count > self.left:
            raise self.fault(f"{what} needs {count} bytes, {self.left} are left")
        self.position += count
        if self.position > _HEADER_LIMIT:
            raise self.fault(f"the header goes on beyond {_HEADER_LIMIT >> 20} MiB at {what}")


@contextmanager
def opened(path: Path) -> Iterator[Header]:
    """Open a regular file to read its header; raises UsageError for anything else."""
    handle = _descriptor(path)
    try:
        header = Header(handle, path)
    except BaseException:
        os.close(handle)
        raise
    with header._file:
        yield header


def _descriptor(path: Path) -> int:
    try:
        # A FIFO must not block the open.
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as fault:
        raise UsageError(f"{path}: {fault.strerror}", "check the path") from None
    if stat.S_ISREG(os.fstat(handle).st_mode):
        return handle
    os.close(handle)
    raise UsageError(f"{path}: not a regular file", "name a file of a model")


def read_text(path: Path) -> str:
    """A whole text file of at most 32 MiB; raises UsageError."""
    with opened(path) as header:
        if header.size > _TEXT_LIMIT:
            raise header.fault(f"{header.size} bytes are too many for a configuration")
        return header.take(header.size, "text").decode("utf-8", "replace")
