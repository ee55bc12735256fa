"""ELF shared libraries: header, sections, what the loader is told (PT_DYNAMIC).

Works on stripped files. Every count and offset in the file is doubted: tables are
read within the file's size, chains of records must move on and may not be endless.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Optional

from doctor.binaries.sources import BinaryUnreadable, Source

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SEGMENT = struct.Struct("<IIQQQQQQ")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_DYNAMIC = struct.Struct("<QQ")
_MACHINES = {62: "x86_64", 183: "aarch64", 190: "cuda", 243: "riscv64", 21: "ppc64le"}
_FOREIGN = {
    b"MZ": "a Windows program (PE)",
    b"\xcf\xfa\xed\xfe": "a macOS program (Mach-O)",
    b"\xce\xfa\xed\xfe": "a macOS program (Mach-O)",
    b"\xca\xfe\xba\xbe": "a macOS program (Mach-O)",
    b"\xfe\xed\xfa\xcf": "a macOS program (Mach-O)",
}
_LOAD, _DYN, _NOTE = 1, 2, 4
_NOBITS = 8
_MAX_SEGMENTS, _MAX_DYNAMIC, _MAX_STRING, _MAX_NOTES = 4096, 8192, 4096, 1 << 20
_NAMES_BEFORE_HEADERS, _SMALL = 64 << 10, 1 << 20

NEEDED, STRTAB, SYMTAB, HASH, SONAME, RPATH, RUNPATH = 1, 5, 6, 4, 14, 15, 29
GNU_HASH, VERDEF, VERDEFNUM = 0x6FFFFEF5, 0x6FFFFFFC, 0x6FFFFFFD
VERNEED, VERNEEDNUM = 0x6FFFFFFE, 0x6FFFFFFF


@dataclass(frozen=True)
class Segment:
    """A program header: kind, place in the file and in memory."""

    kind: int
    offset: int
    address: int
    size: int
    align: int


@dataclass(frozen=True)
class Section:
    """A section header; `in_file` is False for sections without bytes (.bss)."""

    name: str
    kind: int
    offset: int
    size: int
    align: int = 1

    @property
    def in_file(self) -> bool:
        """True if the section has bytes in the file."""
        return self.kind != _NOBITS and self.size > 0


class Elf:
    """One 64-bit little-endian ELF file. Everything is read when first asked for."""

    def __init__(self, source: Source) -> None:
        self.source = source
        head = source.read(0, min(_HEADER.size, source.size))
        _check_identity(head)
        fields = _HEADER.unpack(head)
        self.kind: int = fields[1]
        self.machine: str = _MACHINES.get(fields[2], f"machine-{fields[2]}")
        self.flags: int = fields[7]
        self._segment_table: tuple[int, int, int] = (fields[5], fields[9], fields[10])
        self.section_table: tuple[int, int, int] = (fields[6], fields[11], fields[12])
        self._names_index: int = fields[13]

    @cached_property
    def segments(self) -> tuple[Segment, ...]:
        """Program headers."""
        offset, entry, count = self._segment_table
        if count == 0:
            return ()
        if entry != _SEGMENT.size or count > _MAX_SEGMENTS:
            raise BinaryUnreadable("its program headers make no sense")
        table = self.source.read(offset, count * entry)
        return tuple(
            Segment(row[0], row[2], row[3], row[5], row[7]) for row in _SEGMENT.iter_unpack(table)
        )

    @cached_property
    def sections(self) -> tuple[Section, ...]:
        """Section headers; none if they were stripped."""
        offset, entry, count = self.section_table
        if offset == 0 or count == 0:
            return ()
        if entry != _SECTION.size:
            raise BinaryUnreadable("its section headers make no sense")
        rows = list(_SECTION.iter_unpack(self.source.read(offset, count * entry)))
        names = b""
        if self._names_index < count:
            names = self.source.read(rows[self._names_index][4], rows[self._names_index][5])
        return tuple(
            Section(_text_at(names, row[0]), row[1], row[4], row[5], row[8]) for row in rows
        )

    @cached_property
    def dynamic(self) -> dict[int, list[int]]:
        """Values of PT_DYNAMIC by tag, in file order; empty for a static file."""
        values: dict[int, list[int]] = {}
        segment = next((s for s in self.segments if s.kind == _DYN), None)
        if segment is None:
            return values
        length = min(segment.size, _MAX_DYNAMIC * _DYNAMIC.size)
        table = self.source.read(segment.offset, length - length % _DYNAMIC.size)
        for tag, value in _DYNAMIC.iter_unpack(table):
            if tag == 0:
                break
            values.setdefault(tag, []).append(value)
        return values

    def late_tables(self) -> tuple[tuple[int, int], ...]:
        """Offset and length of what a single pass should remember: it is needed afterwards.

        Section headers with the name table that linkers write before them, PT_DYNAMIC,
        notes, and the small segments into which patchelf moves the string table.
        """
        offset, entry, count = self.section_table
        before = min(offset, _NAMES_BEFORE_HEADERS)
        ranges = [(offset - before, before + entry * count)]
        for segment in self.segments:
            if segment.kind in (_DYN, _NOTE, _LOAD):
                ranges.append((segment.offset, segment.size))
        return tuple((start, length) for start, length in ranges if length <= _SMALL)

    def offset_of(self, address: int) -> int:
        """Where in the file an address of the loaded library lies."""
        for segment in self.segments:
            if segment.kind == _LOAD and 0 <= address - segment.address < segment.size:
                return segment.offset + address - segment.address
        raise BinaryUnreadable(f"address {address:#x} lies outside of the file")

    def table(self, tag: int) -> Optional[int]:
        """File offset of the table that a dynamic tag points to, or None without the tag."""
        values = self.dynamic.get(tag)
        return self.offset_of(values[0]) if values else None

    def string(self, offset: int) -> str:
        """A string of the dynamic string table."""
        start = self.table(STRTAB)
        if start is None:
            raise BinaryUnreadable("it has no dynamic string table")
        return self._text(start + offset)

    def strings(self, tag: int) -> tuple[str, ...]:
        """All strings of a dynamic tag, such as NEEDED."""
        return tuple(self.string(value) for value in self.dynamic.get(tag, ()))

    def notes(self, align: int = 4) -> Iterator[tuple[str, int, bytes]]:
        """Owner, type and descriptor of the notes in PT_NOTE segments of that alignment."""
        for segment in self.segments:
            if segment.kind == _NOTE and segment.size <= _MAX_NOTES and segment.align == align:
                yield from parse_notes(self.source.read(segment.offset, segment.size), align)

    def section(self, name: str) -> Optional[Section]:
        """The first section of that name, or None."""
        return next((s for s in self.sections if s.name == name), None)

    def _text(self, offset: int) -> str:
        for length in (128, _MAX_STRING):
            available = min(length, self.source.size - offset)
            data = self.source.read(offset, available)
            end = data.find(b"\0")
            if end >= 0:
                return data[:end].decode("utf-8", "replace")
        raise BinaryUnreadable("a string in it does not end")


def parse_notes(data: bytes, align: int = 4) -> Iterator[tuple[str, int, bytes]]:
    """Owner, type and descriptor of each note in `data`; stops where they make no sense."""
    position = 0
    while position + 12 <= len(data):
        name_size, size, kind = struct.unpack_from("<III", data, position)
        start = position + 12
        body = position + _aligned(12 + name_size, align)
        if body + size > len(data):
            return
        name = data[start : start + name_size].rstrip(b"\0").decode("utf-8", "replace")
        yield name, kind, data[body : body + size]
        position = body + _aligned(size, align)


def _aligned(size: int, align: int) -> int:
    return (size + align - 1) // align * align


def _text_at(table: bytes, offset: int) -> str:
    piece = table[offset : offset + _MAX_STRING]
    return piece[: piece.find(b"\0")].decode("utf-8", "replace") if b"\0" in piece else ""


def _check_identity(head: bytes) -> None:
    for magic, what in _FOREIGN.items():
        if head.startswith(magic):
            raise BinaryUnreadable(f"{what}, not an ELF file")
    if not head.startswith(b"\x7fELF"):
        raise BinaryUnreadable("not an ELF file" if head else "empty")
    if len(head) < _HEADER.size:
        raise BinaryUnreadable("truncated in its header")
    if head[4] != 2:
        raise BinaryUnreadable("a 32-bit ELF file")
    if head[5] != 1:
        raise BinaryUnreadable("a big-endian ELF file")
