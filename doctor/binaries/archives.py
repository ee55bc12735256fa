"""Wheels (zip) and tar archives: their libraries, read as forward-only streams.

Nothing is unpacked to disk, no member is held in memory.
"""

from __future__ import annotations

import lzma
import re
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from email.message import Message
from email.parser import HeaderParser
from typing import IO, cast

from doctor.binaries.contents import Contents, read_stream
from doctor.binaries.sources import BinaryUnreadable

Progress = Callable[[int, int, str], None]
"""Told how many bytes of how many were read, and of which file."""

_LIBRARY = re.compile(r"\.so(?:\.\d+)*$|\.(?:fatbin|a)$")
_ELF = b"\x7fELF"
_MAX_MEMBERS = 300_000
_MAX_TOTAL = 64 << 30
_MAX_METADATA = 1 << 20
_EXECUTABLE = 0o111
# What zipfile and tarfile raise for broken files, beside OSError: RuntimeError for an
# encrypted member, NotImplementedError for an unknown packing, the rest for damaged headers.
_ARCHIVE_ERRORS = (
    zipfile.BadZipFile,
    tarfile.TarError,
    zlib.error,
    lzma.LZMAError,
    struct.error,
    EOFError,
    RuntimeError,
    ValueError,
    TypeError,
    LookupError,
    OverflowError,
    MemoryError,
)


@dataclass(frozen=True)
class WheelInfo:
    """What a wheel's dist-info says: name, version, tags ("cp311-cp311-manylinux_2_28_x86_64")."""

    name: str = ""
    version: str = ""
    tags: tuple[str, ...] = ()


def is_library(name: str) -> bool:
    """Tell by its name whether a file may hold code that a scan reads."""
    return _LIBRARY.search(name) is not None


class Wheel:
    """An open wheel, or another zip file with libraries in it."""

    def __init__(self, archive: zipfile.ZipFile) -> None:
        self._archive = archive
        self._members = archive.infolist()
        if len(self._members) > _MAX_MEMBERS:
            raise BinaryUnreadable("more members than any real wheel has")
        if sum(member.file_size for member in self._members) > _MAX_TOTAL:
            raise BinaryUnreadable("it claims to hold more than any real wheel does")

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all members."""
        return tuple(member.filename for member in self._members)

    def info(self) -> WheelInfo:
        """Name, version and tags, as far as its metadata tells."""
        metadata = self._headers("METADATA")
        return WheelInfo(
            "".join(metadata.get_all("Name", [])[:1]),
            "".join(metadata.get_all("Version", [])[:1]),
            tuple(self._headers("WHEEL").get_all("Tag", [])),
        )

    def read_libraries(self, progress: Progress) -> Iterator[tuple[str, Contents]]:
        """Read each library in turn, telling `progress` in unpacked bytes."""
        wanted = [member for member in self._members if self._is_wanted(member)]
        total, done = sum(member.file_size for member in wanted), 0
        for member in wanted:
            yield member.filename, self._read(member, _Meter(progress, done, total))
            done += member.file_size

    def _read(self, member: zipfile.ZipInfo, meter: _Meter) -> Contents:
        def opener() -> IO[bytes]:
            with reported():
                stream = self._archive.open(member)
            return cast(IO[bytes], _Guarded(stream, meter, member.filename))

        return read_stream(opener, member.file_size)

    def _is_wanted(self, member: zipfile.ZipInfo) -> bool:
        """Libraries by name; programs by their mode and first bytes."""
        if is_library(member.filename):
            return True
        if not member.filename:
            return False  # zipfile asks it for its last character
        runnable = member.external_attr >> 16 & _EXECUTABLE and not member.is_dir()
        if not runnable or "." in member.filename.rsplit("/", 1)[-1]:
            return False
        return self._start(member, len(_ELF)) == _ELF

    def _headers(self, name: str) -> Message:
        pattern = re.compile(rf"[^/]+\.dist-info/{name}")
        member = next((m for m in self._members if pattern.fullmatch(m.filename)), None)
        text = self._start(member, _MAX_METADATA).decode("utf-8", "replace") if member else ""
        return HeaderParser().parsestr(text.partition("\n\n")[0])

    def _start(self, member: zipfile.ZipInfo, length: int) -> bytes:
        try:
            with reported(), self._archive.open(member) as stream:
                return stream.read(length)
        except BinaryUnreadable:
            return b""


@contextmanager
def open_wheel(path: str) -> Iterator[Wheel]:
    """Open a wheel; raise `BinaryUnreadable` if it is no zip file."""
    with ExitStack() as stack:
        with reported():
            # A file of our own: from Python 3.13 on an archive may leave its file open.
            file = stack.enter_context(open(path, "rb"))
            archive = stack.enter_context(zipfile.ZipFile(file))
        yield Wheel(archive)


def read_tar(stream: IO[bytes], progress: Progress) -> Iterator[tuple[str, Contents]]:
    """Read each library of a tar stream (plain or compressed) in one pass."""
    with reported():
        archive = tarfile.open(fileobj=stream, mode="r|*")  # noqa: SIM115 - closed below
    with archive:
        done = 0
        while True:
            with reported():
                member = archive.next()
            if member is None:
                return
            if member.isreg() and is_library(member.name):
                yield member.name, _read_member(archive, member, _Meter(progress, done, 0))
                done += member.size


def _read_member(archive: tarfile.TarFile, member: tarfile.TarInfo, meter: _Meter) -> Contents:
    opened: list[bool] = []

    def opener() -> IO[bytes]:
        if opened:
            raise BinaryUnreadable("its tables lie behind each other in a stream")
        opened.append(True)
        with reported():
            stream = archive.extractfile(member)
        return cast(IO[bytes], _Guarded(cast(IO[bytes], stream), meter, member.name))

    return read_stream(opener, member.size)


class _Meter:
    """Adds what one member gave to what those before it gave."""

    def __init__(self, progress: Progress, before: int, total: int) -> None:
        self._progress = progress
        self._before = before
        self._total = total

    def at(self, position: int, name: str) -> None:
        self._progress(self._before + position, self._total, name)


class _Guarded:
    """A stream that reports how far it is, and whose errors become `BinaryUnreadable`."""

    def __init__(self, stream: IO[bytes], meter: _Meter, name: str) -> None:
        self._stream = stream
        self._meter = meter
        self._name = name
        self._position = 0

    def read(self, length: int) -> bytes:
        with reported():
            data = self._stream.read(length)
        self._position += len(data)
        self._meter.at(self._position, self._name)
        return data

    def close(self) -> None:
        with reported():
            self._stream.close()


@contextmanager
def reported() -> Iterator[None]:
    """Turn what the archive modules raise for a broken file into `BinaryUnreadable`."""
    try:
        yield
    except BinaryUnreadable:
        raise
    except OSError as error:
        raise BinaryUnreadable(f"cannot be read: {error.strerror or error}") from None
    except _ARCHIVE_ERRORS as error:
        raise BinaryUnreadable(f"a damaged archive: {error}") from None
