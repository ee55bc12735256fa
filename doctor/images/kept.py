"""What is kept of an image's files while they pass: a few texts, and the tables of libraries.

Copies lie in a private folder that goes with the reading. Of a library only the parts are
kept that the loader and symbol look-ups read; its GPU code is looked at as it passes.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import IO, cast

from doctor.binaries.contents import read_stream
from doctor.binaries.elf import Elf
from doctor.binaries.sources import BinaryUnreadable
from doctor.images.rpm import MOST_BYTES
from doctor.images.tar import Kind, Member, TarReader
from doctor.images.tree import Entry

_HEAD = 48 << 20
_MOST_ON_DISK = 4 << 30
_CHUNK = 1 << 20
_LOAD = 1  # PT_LOAD
_LIBRARY = re.compile(r"\.so(?:\.\d+)*$|^(?:python3?(?:\.\d+)?|ptxas(?:-\w+)?)$")
_SMALL_TEXT = 4 << 20
_SCRIPT = 64 << 10
# Texts that probes and the list of parts read, and the longest that each may be.
_TEXTS = tuple(
    (re.compile(pattern), limit)
    for pattern, limit in (
        (r"\.(?:dist|egg)-info/(?:METADATA|PKG-INFO|WHEEL|direct_url\.json|requires\.txt)$",
         _SMALL_TEXT),
        (r"\.dist-info/RECORD$", 16 << 20),
        (r"/EGG-INFO/(?:PKG-INFO|requires\.txt)$|\.egg-info$", _SMALL_TEXT),
        (r"\.pth$|/pyvenv\.cfg$|/conda-meta/history$|/patchlevel\.h$", _SMALL_TEXT),
        (r"/(?:torch|torchvision|torchaudio)/version\.py$", _SMALL_TEXT),
        (r"^/etc/(?:os-release|ld\.so\.(?:conf(?:\.d/.*)?|cache)|passwd|group|debian_version)$",
         16 << 20),
        (r"^/usr/lib/os-release$|^/(?:usr/)?lib/apk/db/installed$", 32 << 20),
        (r"^/var/lib/dpkg/(?:status|status\.d/[^/]+)$", 32 << 20),
        (r"^/(?:var/lib|usr/lib/sysimage)/rpm/rpmdb\.sqlite(?:-wal)?$", MOST_BYTES),
        (r"^/usr/local/Ascend/.*(?:version\.(?:info|cfg)|_install\.info)$", _SMALL_TEXT),
        (r"^/opt/doctor/.*\.(?:txt|json|lock)$", 16 << 20),
        (r"/bin/[^/]+$|^/[^/]+\.sh$", _SCRIPT),
    )
)  # fmt: skip


class Keeper:
    """Keeps files of one image in `folder`, and with each library what was read of it."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self._left = _MOST_ON_DISK
        self._count = 0

    def take(self, path: str, entry: Entry, member: Member, reader: TarReader) -> None:
        """Read the content of a member where it is wanted; `path` starts with "/"."""
        if member.kind is not Kind.FILE or not member.size:
            return
        name = path.rpartition("/")[2]
        if _LIBRARY.search(name):
            self._library(entry, member, reader)
            return
        limit = next((limit for pattern, limit in _TEXTS if pattern.search(path)), 0)
        if member.size <= min(limit, self._left):
            with open(self._new_copy(entry), "wb") as copy:
                for start in range(0, member.size, _CHUNK):
                    copy.write(reader.read(min(_CHUNK, member.size - start)))
            self._left -= member.size

    def _new_copy(self, entry: Entry) -> str:
        self._count += 1
        entry.path = os.path.join(self.folder, str(self._count))
        return entry.path

    def _library(self, entry: Entry, member: Member, reader: TarReader) -> None:
        first = reader.read(min(_CHUNK, member.size))
        if not first.startswith(b"\x7fELF"):
            return
        head, late = _tables(first, member.size)
        if self._left < head:
            # Symbols of this one cannot be looked up; all else is read as it passes.
            entry.seen = read_stream(_Passing(first, member.size, reader).open, member.size)
            return
        with open(self._new_copy(entry), "w+b") as file:
            file.truncate(member.size)
            copy = _Copy(file, head, ((0, head), *late))
            passing = _Passing(first, member.size, reader, copy)
            entry.seen = read_stream(passing.open, member.size)
            passing.finish()
            self._left -= passing.written


@dataclass(frozen=True)
class _Copy:
    """A copy with holes: its start up to `head` and the other `ranges` (offset, length)."""

    file: IO[bytes]
    head: int
    ranges: tuple[tuple[int, int], ...]


class _Passing:
    """A library on its way through: what is needed later is copied, the rest left as a hole."""

    def __init__(
        self, first: bytes, size: int, reader: TarReader, copy: _Copy | None = None
    ) -> None:
        self._first = first
        self._size = size
        self._reader = reader
        self._copy = copy
        self._position = 0
        self._opened = False
        self.written = 0

    def open(self) -> IO[bytes]:
        """The stream itself; later, the head that was copied."""
        if self._opened:
            if self._copy is None:
                raise BinaryUnreadable("its tables lie behind each other in a stream")
            return cast(IO[bytes], _Head(self._copy))
        self._opened = True
        return cast(IO[bytes], self)

    def read(self, length: int) -> bytes:
        """The next bytes."""
        data, self._first = (self._first or self._reader.read(length)), b""
        if self._copy is not None:
            self._keep(data, self._copy)
        self._position += len(data)
        return data

    def close(self) -> None:
        """Nothing to close: the archive goes on."""

    def finish(self) -> None:
        """Read on to the last byte that is to be copied, if the reading ended before."""
        ranges = self._copy.ranges if self._copy else ()
        end = min(self._size, max((start + size for start, size in ranges), default=0))
        while self._position < end and self.read(_CHUNK):
            pass

    def _keep(self, data: bytes, copy: _Copy) -> None:
        for start, size in copy.ranges:
            low, high = max(start, self._position), min(start + size, self._position + len(data))
            if low < high:
                copy.file.seek(low)
                copy.file.write(data[low - self._position : high - self._position])
                self.written += high - low


class _Head:
    """The copied start of a library, for readers that go back; behind it lies nothing."""

    def __init__(self, copy: _Copy) -> None:
        copy.file.flush()
        self._file = copy.file
        self._end = copy.head
        self._position = 0

    def read(self, length: int) -> bytes:
        if self._position >= self._end:
            raise BinaryUnreadable("its tables lie behind each other in a stream")
        self._file.seek(self._position)
        data = self._file.read(min(length, self._end - self._position))
        self._position += len(data)
        return data

    def close(self) -> None:
        pass


class _FirstBytes:
    """The start of a file as a source of its whole size."""

    def __init__(self, data: bytes, size: int) -> None:
        self._data = data
        self.size = size

    def read(self, offset: int, length: int) -> bytes:
        if offset < 0 or length < 0 or offset + length > len(self._data):
            raise BinaryUnreadable("not in the first bytes")
        return self._data[offset : offset + length]


def _tables(first: bytes, size: int) -> tuple[int, tuple[tuple[int, int], ...]]:
    """How much of the start to copy, and which ranges behind it.

    Linkers put the tables of symbols into the first segment that is loaded.
    """
    most = min(size, _HEAD)
    try:
        file = Elf(_FirstBytes(first, size))
        loaded = next((s for s in file.segments if s.kind == _LOAD), None)
        head = min(most, max(loaded.offset + loaded.size, _CHUNK)) if loaded else most
        return head, file.late_tables()
    except BinaryUnreadable:
        return most, ()
