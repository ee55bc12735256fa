"""Code for AMD GPUs: HIP offload bundles, plain and compressed, and their gfx targets.

A plain bundle is the text `__CLANG_OFFLOAD_BUNDLE__`, a u64 count, and per entry
u64 offset, u64 size, u64 length and the id ("hipv4-amdgcn-amd-amdhsa--gfx942:xnack-").
A compressed one starts with `CCOB`, u16 version, u16 method, its sizes and a hash; then
comes a plain one, packed. Bundles start on page boundaries.
Source: Clang documentation, "Clang Offload Bundler"; llvm lib/Object/OffloadBundle.cpp.
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass, field

from doctor.binaries.packing import unpack_zlib, unpack_zstd
from doctor.binaries.sources import BinaryUnreadable, Cursor

SECTION = ".hip_fatbin"
PLAIN, PACKED = b"__CLANG_OFFLOAD_BUNDLE__", b"CCOB"
_GFX = re.compile(r"gfx\d+-[a-z0-9-]+generic|gfx[0-9a-f]{3,5}(?::[a-z]+[+-])*")
_HEAD = 64 << 10
_PAGE = 4096
_MAX_ENTRIES, _MAX_ID, _MAX_STEPS = 512, 256, 50_000
# Per version of a compressed bundle: header length, and the field that holds its total size.
_PACKED_HEADERS = {1: (20, ""), 2: (24, "<I"), 3: (32, "<Q")}
_ZLIB = 0


@dataclass
class HipBundles:
    """What a walk found: the gfx targets, and why bundles could not be opened, if so."""

    targets: set[str] = field(default_factory=set)
    count: int = 0
    sealed: str = ""
    steps: int = 0


def read_bundle(cursor: Cursor, end: int, found: HipBundles) -> bool:
    """Add the bundle at the cursor and move behind it; False if there is none."""
    found.steps += 1
    if found.steps > _MAX_STEPS:
        raise BinaryUnreadable("more offload bundles than any real file has")
    if cursor.position % _PAGE:
        cursor.skip(1)
        return False
    head = cursor.peek(min(_HEAD, end - cursor.position))
    try:
        targets, length = parse_bundle(head)
    except _Sealed as sealed:
        found.sealed = str(sealed)
        targets, length = (), _packed_length(head)
    except BinaryUnreadable:
        cursor.skip(1)
        return False
    found.targets.update(targets)
    found.count += 1
    cursor.skip(max(length, 1))
    return True


class _Sealed(BinaryUnreadable):
    """A sound bundle that this Python cannot unpack."""


def parse_bundle(head: bytes) -> tuple[tuple[str, ...], int]:
    """The gfx targets of one bundle and its length in the file, from its first bytes."""
    if head.startswith(PACKED):
        length = _packed_length(head)
        targets, _ = _parse_plain(_unpacked(head))
        return targets, length
    return _parse_plain(head)


def _parse_plain(head: bytes) -> tuple[tuple[str, ...], int]:
    if not head.startswith(PLAIN):
        raise BinaryUnreadable("an offload bundle of an unknown kind")
    targets, end, position = [], 0, len(PLAIN) + 8
    try:
        (count,) = struct.unpack_from("<Q", head, len(PLAIN))
        for _ in range(min(count, _MAX_ENTRIES)):
            offset, size, length = struct.unpack_from("<QQQ", head, position)
            if length > _MAX_ID:
                raise BinaryUnreadable("a broken offload bundle")
            name = head[position + 24 : position + 24 + length]
            match = _GFX.search(name.decode("ascii", "replace"))
            targets.extend([match[0]] if match else [])
            end = max(end, offset + size)
            position += 24 + length
    except struct.error:
        raise BinaryUnreadable("a truncated offload bundle") from None
    return tuple(targets), end


def _packed_header(head: bytes) -> tuple[int, int, int]:
    """Header length, method and total length (0 if it is not stated) of a compressed bundle."""
    version, method = struct.unpack_from("<HH", head.ljust(32, b"\0"), 4)
    if version not in _PACKED_HEADERS or method > 1:
        raise BinaryUnreadable(f"a compressed offload bundle of version {version}")
    length, size_field = _PACKED_HEADERS[version]
    total = struct.unpack_from(size_field, head.ljust(32, b"\0"), 8)[0] if size_field else 0
    return length, method, total


def _packed_length(head: bytes) -> int:
    return _packed_header(head)[2]


def _unpacked(head: bytes) -> bytes:
    length, method, _ = _packed_header(head)
    if method == _ZLIB:
        return unpack_zlib(head[length:], _HEAD)
    try:
        return unpack_zstd(head[length:], _HEAD)
    except BinaryUnreadable as reason:
        raise _Sealed(str(reason)) from None
