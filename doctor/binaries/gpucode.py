"""Find all GPU code of a file: by its sections where it has them, else by searching."""

from __future__ import annotations

from dataclasses import dataclass, field

from doctor.binaries import fatbin, offload
from doctor.binaries.elf import Elf, Section
from doctor.binaries.fatbin import FatBinaries
from doctor.binaries.offload import HipBundles
from doctor.binaries.sources import BinaryUnreadable, Cursor, Source, SourceCursor


@dataclass
class GpuCode:
    """What was found in one file for NVIDIA and for AMD cards."""

    cuda: FatBinaries = field(default_factory=FatBinaries)
    hip: HipBundles = field(default_factory=HipBundles)


def read_sections(file: Elf) -> GpuCode:
    """Read the sections that are known to hold GPU code; a broken one raises."""
    found = GpuCode()
    for section in file.sections:
        if section.in_file and section.name in fatbin.SECTIONS:
            _read_fatbins(file.source, section, found.cuda)
        elif section.in_file and section.name == offload.SECTION:
            _read_bundles(file.source, section, found.hip)
    return found


def search(cursor: Cursor, end: int) -> GpuCode:
    """Search all bytes; what only looks like GPU code is passed over."""
    found = GpuCode()
    while cursor.find(fatbin.MAGIC, offload.PLAIN, offload.PACKED) and cursor.position < end:
        if cursor.peek(len(fatbin.MAGIC)) == fatbin.MAGIC:
            fatbin.read_container(cursor, end, found.cuda)
        else:
            offload.read_bundle(cursor, end, found.hip)
    return found


def _read_fatbins(source: Source, section: Section, found: FatBinaries) -> None:
    end = section.offset + section.size
    cursor = SourceCursor(source, section.offset, end)
    while cursor.find(fatbin.MAGIC):
        start = cursor.position
        if not fatbin.read_container(cursor, end, found):
            raise BinaryUnreadable(f"a broken fat binary at {start}")


def _read_bundles(source: Source, section: Section, found: HipBundles) -> None:
    end = section.offset + section.size
    cursor = SourceCursor(source, section.offset, end)
    while cursor.find(offload.PLAIN, offload.PACKED):
        offload.read_bundle(cursor, end, found)
