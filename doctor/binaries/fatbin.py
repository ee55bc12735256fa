"""CUDA fat binaries: which GPUs the machine code and PTX inside a file are for.

Layout, little endian, read from samples that nvcc made and compared with cuobjdump:

    container  u32 magic, u16 version (1), u16 header size (16), u64 payload size
    entry      u16 kind, u16 version, u32 header size, u64 padded payload size,
               u32 compressed size, u32 options offset, u16 minor, u16 major, u32 arch,
               u32 name offset, u32 name length, u64 flags, u64 0, u64 unpacked size

The entries of one container are alternatives for the same kernels. For PTX, major and
minor are its ISA version. To list what is there, nothing needs to be decompressed.
"""

from __future__ import annotations

import struct
from collections import Counter
from dataclasses import dataclass, field
from typing import Optional

from doctor.binaries.sources import BinaryUnreadable, Cursor
from doctor.facts import CodeTarget, Coverage, Kernels

MAGIC = b"\x50\xed\x55\xba"
SECTIONS = (".nv_fatbin", "__nv_relfatbin")
"""ELF sections with fat binaries: code that is linked, and code that nvlink has still to link."""

PTX, SASS = 1, 2
LZ4, ZSTD = 0x2000, 0x8000
_ARCH_SPECIFIC, _FAMILY = 0x100000, 0x200000
_CONTAINER = struct.Struct("<IHHQ")
_ENTRY = struct.Struct("<HHIQIIHHIIIQQQ")
_ENTRY_HEADER = range(48, 4097)
_MAX_STEPS = 100_000
_MAX_SAMPLE = 256 << 10

_Key = tuple[int, int, int, int, int]  # kind, arch, flags that matter, ISA major and minor


@dataclass(frozen=True)
class Cubin:
    """One compiled module as it lies in the file: packed bytes, how packed, size unpacked."""

    payload: bytes
    compression: str
    size: int


@dataclass
class FatBinaries:
    """What a walk found, summed up: groups of alternatives and how entries are packed.

    `others` counts entries that are neither PTX nor SASS (link-time code, indexes),
    `sample` is a small cubin whose notes tell the toolkit.
    """

    groups: Counter[tuple[_Key, ...]] = field(default_factory=Counter)
    compression: Counter[str] = field(default_factory=Counter)
    others: Counter[int] = field(default_factory=Counter)
    containers: int = 0
    sample: Optional[Cubin] = None
    steps: int = 0

    def kernels(self) -> tuple[Kernels, ...]:
        """The groups as facts, the most frequent first; a target repeats as its entries do."""
        return tuple(
            Kernels(tuple(_target(key) for key in group), count)
            for group, count in sorted(self.groups.items(), key=lambda item: (-item[1], item[0]))
        )

    def step(self) -> None:
        """Count one step of the walk; raise when there are more than any real file has."""
        self.steps += 1
        if self.steps > _MAX_STEPS:
            raise BinaryUnreadable("more fat binary entries than any real file has")


def read_container(cursor: Cursor, end: int, found: FatBinaries) -> bool:
    """Add the container at the cursor; False, with the cursor moved on, if it is broken."""
    found.step()
    stop = _container_end(cursor, end)
    if stop is None:
        cursor.skip(len(MAGIC))
        return False
    group = _entries(cursor, stop, found)
    if cursor.position != stop:
        return False
    found.containers += 1
    if group:
        found.groups[tuple(sorted(group))] += 1
    return True


def _container_end(cursor: Cursor, end: int) -> Optional[int]:
    """Check the header at the cursor; move behind it and return where its entries end."""
    head = cursor.peek(_CONTAINER.size)
    if len(head) < _CONTAINER.size:
        return None
    _, version, header_size, payload_size = _CONTAINER.unpack(head)
    stop: int = cursor.position + header_size + payload_size
    if version != 1 or not _CONTAINER.size <= header_size <= 256 or stop > end:
        return None
    cursor.skip(header_size)
    return stop


def _entries(cursor: Cursor, stop: int, found: FatBinaries) -> list[_Key]:
    """Read the entries up to `stop`; the cursor stays at the first that makes no sense."""
    group: list[_Key] = []
    while stop - cursor.position >= _ENTRY.size:
        found.step()
        data = cursor.peek(_ENTRY.size)
        if len(data) < _ENTRY.size:
            break
        kind, _, header, payload, packed, _, minor, major, arch, _, _, flags, _, size = (
            _ENTRY.unpack(data)
        )
        if header not in _ENTRY_HEADER or cursor.position + header + payload > stop:
            break
        if kind in (PTX, SASS):
            isa = (major, minor) if kind == PTX else (0, 0)
            group.append((kind, arch, flags & (_ARCH_SPECIFIC | _FAMILY), *isa))
            packing = "zstd" if flags & ZSTD else "lz4" if flags & LZ4 else "none"
            found.compression[packing] += 1
            if kind == SASS and found.sample is None and payload <= _MAX_SAMPLE:
                found.sample = _cut(cursor, header, packed or payload, packing, size)
        else:
            found.others[kind] += 1
        cursor.skip(header + payload)
    if 0 < stop - cursor.position < _ENTRY.size:
        cursor.skip(stop - cursor.position)
    return group


def _cut(cursor: Cursor, header: int, length: int, packing: str, size: int) -> Cubin:
    data = cursor.peek(header + min(length, _MAX_SAMPLE))
    return Cubin(data[header:], packing, size or length)


def _target(key: _Key) -> CodeTarget:
    kind, arch, flags, major, minor = key
    suffix = "a" if flags & _ARCH_SPECIFIC else "f" if flags & _FAMILY else ""
    if kind == SASS:
        return CodeTarget(Coverage.SASS, arch, suffix)
    return CodeTarget(Coverage.PTX, arch, suffix, (major, minor))
