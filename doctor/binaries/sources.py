"""Where bytes come from: a file read by windows, bytes in memory, or a forward-only stream.

Nothing is mapped into memory: a file that another process cuts short while it is
being read gives an error here, where a mapping would kill the process.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import IO, Optional, Protocol

CHUNK = 1 << 20
_WINDOW = 4096
_MAX_READ = 96 << 20
_MAX_KEPT = 24 << 20


class BinaryUnreadable(Exception):  # noqa: N818 - an answer about a file, not a failure
    """The file is not what it should be, or cannot be read; the text says why."""


class Source(Protocol):
    """Bytes of one binary, read at any offset."""

    size: int

    def read(self, offset: int, length: int) -> bytes:
        """Exactly `length` bytes; raise `BinaryUnreadable` if they are not all there."""


class Cursor(Protocol):
    """A place in the bytes that only moves forward."""

    @property
    def position(self) -> int:
        """Offset of the next byte."""

    def peek(self, length: int) -> bytes:
        """The next bytes, fewer than `length` only at the end. Does not move."""

    def skip(self, length: int) -> None:
        """Move forward, at most to the end."""

    def find(self, *magics: bytes) -> bool:
        """Move to the next of the `magics`; False (and at the end) if there is none."""


def _check_range(offset: int, length: int, size: int) -> None:
    if offset < 0 or length < 0 or offset + length > size:
        raise BinaryUnreadable(f"truncated: {length} bytes at {offset} of a file of {size}")
    if length > _MAX_READ:
        raise BinaryUnreadable(f"a table of {length} bytes is larger than any real one")


class FileSource:
    """A regular file, read by pread windows."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self.size = os.fstat(descriptor).st_size
        self._start = 0
        self._window = b""

    def read(self, offset: int, length: int) -> bytes:
        """Exactly `length` bytes at `offset`; small reads are served from one window."""
        within = offset - self._start
        if within >= 0 and within + length <= len(self._window):
            return self._window[within : within + length]
        _check_range(offset, length, self.size)
        data = self._pread(offset, max(length, min(_WINDOW, self.size - offset)))
        if len(data) < length:
            raise BinaryUnreadable(f"truncated while it was read, at {offset + len(data)}")
        if length < _WINDOW:
            self._start, self._window = offset, data
            return data[:length]
        return data

    def _pread(self, offset: int, length: int) -> bytes:
        try:
            return os.pread(self._descriptor, length, offset)
        except OSError as error:
            raise BinaryUnreadable(f"cannot be read: {error.strerror}") from None


class BytesSource:
    """Bytes that are in memory."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.size = len(data)

    def read(self, offset: int, length: int) -> bytes:
        """Exactly `length` bytes at `offset`."""
        _check_range(offset, length, self.size)
        return self._data[offset : offset + length]


@contextmanager
def open_file(path: str) -> Iterator[FileSource]:
    """Open a regular file; raise `BinaryUnreadable` for anything else (pipe, device, folder)."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or "not a usable path"
        raise BinaryUnreadable(f"cannot be opened: {why}") from None
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise BinaryUnreadable("not a regular file")
        yield FileSource(descriptor)
    finally:
        os.close(descriptor)


class SourceCursor:
    """A cursor over a part of a source; what is skipped is never read."""

    def __init__(self, source: Source, start: int = 0, end: Optional[int] = None) -> None:
        self._source = source
        self.position = start
        self._end = source.size if end is None else min(end, source.size)

    def peek(self, length: int) -> bytes:
        """The next bytes, fewer than `length` only at the end."""
        return self._source.read(self.position, max(0, min(length, self._end - self.position)))

    def skip(self, length: int) -> None:
        """Move forward, at most to the end."""
        self.position = min(self.position + length, self._end)

    def find(self, *magics: bytes) -> bool:
        """Move to the next of the `magics`; what lies before it is read in growing chunks."""
        longest = max(map(len, magics))
        step = _WINDOW
        while self.position < self._end:
            data = self.peek(step)
            found = _first(data, 0, magics)
            if found >= 0:
                self.position += found
                return True
            self.position += max(len(data) - longest + 1, 1)
            step = min(step * 4, CHUNK)
        self.position = self._end
        return False


def _first(data: bytes, start: int, magics: tuple[bytes, ...]) -> int:
    """Where the first of several byte strings begins, or -1."""
    best, end = -1, len(data)
    for magic in magics:
        found = data.find(magic, start, end)
        if found >= 0:
            best, end = found, found + len(magic) - 1
    return best


class StreamSource:
    """A source over a forward-only stream that can, perhaps, be opened again.

    The first bytes and the ranges named by `keep` are remembered as they pass. Reading
    elsewhere moves forward, or reopens the stream where that is possible. It is its own
    cursor, so one pass finds everything that needs no looking back.
    """

    def __init__(self, opener: Callable[[], IO[bytes]], size: int, head: int = 4 << 20) -> None:
        self._opener = opener
        self._stream = opener()
        self.size = size
        self._head_limit = head
        self._head = bytearray()
        self._wanted: list[tuple[int, bytearray, int]] = []
        self._buffer = b""
        self._index = 0
        self._base = 0
        self._kept_bytes = 0
        self._fill()

    @property
    def position(self) -> int:
        """Offset of the next byte."""
        return self._base + self._index

    def keep(self, offset: int, length: int) -> None:
        """Remember a range when it passes, for a later `read`. Ranges behind are ignored."""
        if length <= 0 or offset < self._base:
            return
        self._kept_bytes += length
        if self._kept_bytes > _MAX_KEPT:
            raise BinaryUnreadable("its tables are too scattered to be read from a stream")
        passed = self._buffer[offset - self._base :][:length]
        self._wanted.append((offset, bytearray(passed), length))

    def rewind(self) -> None:
        """Go back to the start, by opening the stream again if it has moved on."""
        if self._base > 0:
            self._stream.close()
            self._stream = self._opener()
            self._buffer, self._base = b"", 0
        self._index = 0

    def read(self, offset: int, length: int) -> bytes:
        """Exactly `length` bytes at `offset`, from memory, ahead, or a second opening."""
        _check_range(offset, length, self.size)
        if offset + length <= len(self._head):
            return bytes(self._head[offset : offset + length])
        data = self._kept(offset, length)
        if data is None:
            self._fetch(offset, length)
            data = self._kept(offset, length)
        if data is None:
            raise BinaryUnreadable(f"truncated: the stream ends before {offset + length}")
        return data

    def peek(self, length: int) -> bytes:
        """The next bytes of the stream, fewer only at its end."""
        while len(self._buffer) - self._index < length and self._fill():
            pass
        return self._buffer[self._index : self._index + length]

    def skip(self, length: int) -> None:
        """Read and forget."""
        target = self.position + length
        while self._base + len(self._buffer) < target:
            self._index = len(self._buffer)
            if not self._fill():
                return
        self._index = target - self._base

    def find(self, *magics: bytes) -> bool:
        """Move to the next of the `magics` in the stream."""
        longest = max(map(len, magics))
        while True:
            found = _first(self._buffer, self._index, magics)
            if found >= 0:
                self._index = found
                return True
            self._index = max(len(self._buffer) - longest + 1, self._index)
            if not self._fill():
                self._index = len(self._buffer)
                return False

    def close(self) -> None:
        """Close the stream."""
        self._stream.close()

    def _fill(self) -> bool:
        """Take one more chunk; bytes before the position are dropped."""
        data = self._stream.read(CHUNK)
        if not data:
            return False
        self._remember(self._base + len(self._buffer), data)
        self._base += self._index
        self._buffer = self._buffer[self._index :] + data
        self._index = 0
        return True

    def _remember(self, at: int, data: bytes) -> None:
        if at == len(self._head) and at < self._head_limit:
            self._head += data[: self._head_limit - at]
        for offset, kept, length in self._wanted:
            start = offset + len(kept) - at
            if 0 <= start < len(data) and len(kept) < length:
                kept.extend(data[start : start + length - len(kept)])

    def _kept(self, offset: int, length: int) -> Optional[bytes]:
        for start, kept, _ in self._wanted:
            if start <= offset and offset + length <= start + len(kept):
                return bytes(kept[offset - start : offset - start + length])
        return None

    def _fetch(self, offset: int, length: int) -> None:
        """Keep the blocks around a range, so that reads near it need no reopening."""
        start = offset - offset % CHUNK
        if start < self._base:
            self.rewind()
        wanted = min(length + offset % CHUNK + CHUNK, self.size - start)
        self.keep(start, wanted)
        self.skip(max(start + wanted - self.position, 0))
