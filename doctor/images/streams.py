"""Bytes of images on their way in: chunks, slices of files, compressed layers, and a meter."""

from __future__ import annotations

import hashlib
import time
import zlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import IO, BinaryIO, cast

from doctor.errors import UsageError
from doctor.extras import how_to_add
from doctor.images.tar import Stream

Progress = Callable[[int, int, str], None]
_CHUNK = 1 << 20
_MOST_BYTES = 1 << 40


class Chunks:
    """Chunks of any size as a stream."""

    def __init__(self, chunks: Iterable[bytes]) -> None:
        self._chunks = filter(None, chunks)
        self._buffer = b""
        self._at = 0

    def read(self, length: int) -> bytes:
        """The next bytes."""
        parts = []
        while length > 0:
            if self._at == len(self._buffer):
                self._buffer, self._at = next(self._chunks, b""), 0
                if not self._buffer:
                    break
            part = self._buffer[self._at : self._at + length]
            self._at += len(part)
            length -= len(part)
            parts.append(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)


class Slice:
    """A part of a file that can be read at any place; what is skipped is not read."""

    def __init__(self, file: BinaryIO, start: int, size: int) -> None:
        self._file = file
        self._at = start
        self._end = start + size

    @property
    def position(self) -> int:
        """Offset in the file of the next byte."""
        return self._at

    def read(self, length: int) -> bytes:
        """The next bytes."""
        self._file.seek(self._at)
        data = self._file.read(max(0, min(length, self._end - self._at)))
        self._at += len(data)
        return data

    def skip(self, length: int) -> None:
        """Move on; raises UsageError past the end."""
        self._at += length
        if self._at > self._end:
            raise UsageError("the archive is cut off")


class Metered:
    """A stream that tells how far it is, and ends what takes too long or never ends."""

    def __init__(self, stream: Stream, meter: Meter) -> None:
        self._stream = stream
        self._meter = meter
        skip = getattr(stream, "skip", None)
        if skip is not None:
            self.skip = skip

    def read(self, length: int) -> bytes:
        """The next bytes."""
        data = self._stream.read(length)
        self._meter.add(len(data))
        return data


class Hashed:
    """A stream that is read to its end, and then tells the digest of all that passed."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._hash = hashlib.sha256()

    def read(self, length: int) -> bytes:
        """The next bytes."""
        data = self._stream.read(length)
        self._hash.update(data)
        return data

    def digest(self) -> str:
        """Read what is left, and tell."""
        while self.read(_CHUNK):
            pass
        return f"sha256:{self._hash.hexdigest()}"


class Meter:
    """Bytes read of one image, against a limit of time."""

    def __init__(self, progress: Progress, limit_s: float) -> None:
        self._progress = progress
        self._limit_s = limit_s
        self._until = time.monotonic() + limit_s
        self._done = 0
        self.name = ""

    def add(self, length: int) -> None:
        """Count bytes; raises UsageError if there are too many, or if time is up."""
        self._done += length
        self._progress(self._done, 0, self.name)
        if time.monotonic() > self._until:
            raise UsageError(
                f"the image was not read within {self._limit_s:g} s",
                "give it more with --image-limit SECONDS",
            )
        if self._done > _MOST_BYTES:
            raise UsageError("the image unpacks to more than any real one")


@dataclass(frozen=True)
class Packing:
    """A form of compression: its first bytes, and the program that takes it away."""

    name: str
    magic: bytes
    unpack: str


_PACKINGS = (
    Packing("gzip", b"\x1f\x8b", "gunzip"),
    Packing("zstd", b"\x28\xb5\x2f\xfd", "unzstd"),
    Packing("xz", b"\xfd7zXZ\0", "unxz"),
    Packing("bzip2", b"BZh", "bunzip2"),
)
_MAGIC = 6


def packed_by(first: bytes) -> Packing | None:
    """The compression that the first six bytes tell, or None."""
    return next((form for form in _PACKINGS if first.startswith(form.magic)), None)


def unpacked(stream: Stream) -> Stream:
    """A layer without its compression: gzip, zstd or none.

    Raises UsageError for others, which no registry takes.
    """
    first = stream.read(_MAGIC)
    whole, form = _Prefixed(first, stream), packed_by(first)
    if form is None:
        return whole
    if form.name not in ("gzip", "zstd"):
        raise UsageError(f"a layer is packed with {form.name}", "only gzip and zstd are read")
    return Chunks((_gunzip if form.name == "gzip" else _unzstd)(whole))


class _Prefixed:
    """A stream whose first bytes were taken already."""

    def __init__(self, first: bytes, stream: Stream) -> None:
        self._first = first
        self._stream = stream

    def read(self, length: int) -> bytes:
        part, self._first = self._first[:length], self._first[length:]
        return part + self._stream.read(length - len(part)) if len(part) < length else part

    def skip(self, length: int) -> None:
        left = length - len(self.read(min(length, len(self._first))))
        seek = getattr(self._stream, "skip", None)
        if seek is not None:
            seek(left)
            return
        while left:
            data = self._stream.read(min(left, _CHUNK))
            if not data:
                raise UsageError("the archive is cut off")
            left -= len(data)


def _gunzip(stream: Stream) -> Iterable[bytes]:
    """Every member of a gzip file; no more than a chunk at a time is unpacked."""
    data = stream.read(_CHUNK)
    while data:
        inflate = zlib.decompressobj(31)
        while not inflate.eof:
            try:
                out = inflate.decompress(data, _CHUNK)
            except zlib.error as fault:
                raise UsageError(f"a layer is damaged: {fault}") from None
            if not (data or out):
                raise UsageError("a layer is cut off")
            yield out
            data = inflate.unconsumed_tail or (b"" if inflate.eof else stream.read(_CHUNK))
        data = inflate.unused_data.lstrip(b"\0") or stream.read(_CHUNK)


def _unzstd(stream: Stream) -> Iterable[bytes]:
    try:
        import zstandard
    except ImportError:
        raise UsageError("a layer is packed with zstd", how_to_add("scan")) from None
    try:
        # Frames ask for a window; one that is larger than the usual is a bomb.
        reader = zstandard.ZstdDecompressor(max_window_size=128 << 20).stream_reader(
            cast(IO[bytes], stream), read_across_frames=True
        )
        while data := reader.read(_CHUNK):
            yield data
    except zstandard.ZstdError as fault:
        raise UsageError(f"a layer is damaged: {fault}") from None
