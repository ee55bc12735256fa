"""Unpack one compressed piece of GPU code: LZ4 blocks, zstd where Python can, zlib."""

from __future__ import annotations

import importlib
import zlib
from typing import Any, Optional

from doctor.binaries.fatbin import Cubin
from doctor.binaries.sources import BinaryUnreadable

_MAX_UNPACKED = 8 << 20


def unpack(cubin: Cubin) -> bytes:
    """The cubin's bytes; raise `BinaryUnreadable` if they cannot be had."""
    if cubin.size > _MAX_UNPACKED:
        raise BinaryUnreadable("a cubin too large to unpack for its notes")
    if cubin.compression == "lz4":
        return unpack_lz4(cubin.payload, cubin.size)
    if cubin.compression == "zstd":
        return unpack_zstd(cubin.payload, cubin.size)
    return cubin.payload


def unpack_zlib(data: bytes, limit: int) -> bytes:
    """At most `limit` bytes of a zlib stream."""
    try:
        return zlib.decompressobj().decompress(data, limit)
    except zlib.error:
        raise BinaryUnreadable("broken zlib data") from None


def unpack_zstd(data: bytes, limit: int) -> bytes:
    """At most `limit` bytes of a zstd frame; needs Python 3.14 or the `zstandard` package."""
    module = _optional("zstandard")
    if module is not None:
        try:
            with module.ZstdDecompressor().stream_reader(data) as reader:
                return bytes(reader.read(limit))
        except module.ZstdError:
            raise BinaryUnreadable("broken zstd data") from None
    module = _optional("compression.zstd")
    if module is None:
        raise BinaryUnreadable("packed with zstd, which this Python cannot unpack")
    try:
        return bytes(module.ZstdDecompressor().decompress(data, limit))
    except module.ZstdError:
        raise BinaryUnreadable("broken zstd data") from None


def _optional(name: str) -> Optional[Any]:
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


def unpack_lz4(data: bytes, size: int) -> bytes:
    """One LZ4 block of a known unpacked size."""
    out = bytearray()
    position = 0
    try:
        while position < len(data) and len(out) < size:
            token = data[position]
            literals, position = _length(data, position + 1, token >> 4)
            out += data[position : position + literals]
            position += literals
            if position >= len(data) or len(out) >= size:
                break
            distance = data[position] | data[position + 1] << 8
            length, position = _length(data, position + 2, token & 15)
            _repeat(out, distance, length + 4, size)
    except IndexError:
        raise BinaryUnreadable("broken LZ4 data") from None
    return bytes(out)


def _length(data: bytes, position: int, start: int) -> tuple[int, int]:
    """A length and the position behind it: 15 is continued by bytes until one is not 255."""
    length = start
    if start == 15:
        while True:
            byte = data[position]
            position += 1
            length += byte
            if byte != 255:
                break
    return length, position


def _repeat(out: bytearray, distance: int, length: int, size: int) -> None:
    if not 0 < distance <= len(out) or len(out) + length > size:
        raise BinaryUnreadable("broken LZ4 data")
    start = len(out) - distance
    while length > 0:
        piece = out[start : start + length]
        out += piece
        length -= len(piece)
