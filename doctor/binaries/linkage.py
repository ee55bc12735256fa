"""What a shared library asks of the loader, and what it offers to others."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Optional

from doctor.binaries import elf
from doctor.binaries.elf import Elf
from doctor.binaries.sources import BinaryUnreadable
from doctor.facts import Version

_NEED = struct.Struct("<HHIII")
_NEED_VERSION = struct.Struct("<IHHII")
_DEFINITION = struct.Struct("<HHHHIII")
_DEFINITION_NAME = struct.Struct("<II")
_NUMBERS = re.compile(r"\d{1,4}(?:\.\d{1,4}){0,3}")
_MAX_RECORDS = 20_000
_BASE_DEFINITION, _WEAK = 1, 2
_GNU_BUILD_ID = 3


@dataclass(frozen=True)
class Linkage:
    """The loader's view of one library.

    `rpath` and `runpath` are split at colons and still hold $ORIGIN. `requires` are the
    symbol versions that it needs by library ("libc.so.6" → ("GLIBC_2.17",)), those
    needed only by weak symbols left out; `provides` the versions that it defines.
    """

    machine: str = ""
    soname: str = ""
    needed: tuple[str, ...] = ()
    rpath: tuple[str, ...] = ()
    runpath: tuple[str, ...] = ()
    requires: tuple[tuple[str, tuple[str, ...]], ...] = ()
    provides: tuple[str, ...] = ()
    build_id: str = ""

    def floor(self, prefix: str) -> Optional[Version]:
        """The newest symbol version of a family that it needs ("GLIBC" → 2.17)."""
        start = f"{prefix}_"
        numbers = [
            tuple(map(int, match[0].split(".")))
            for _, names in self.requires
            for name in names
            if name.startswith(start)
            for match in [_NUMBERS.fullmatch(name[len(start) :])]
            if match
        ]
        return Version(".".join(map(str, max(numbers)))) if numbers else None


def read_linkage(file: Elf) -> Linkage:
    """Read PT_DYNAMIC and the version tables; a static file gives only machine and build id."""
    return Linkage(
        machine=file.machine,
        soname="".join(file.strings(elf.SONAME)[:1]),
        needed=file.strings(elf.NEEDED),
        rpath=_folders(file.strings(elf.RPATH)),
        runpath=_folders(file.strings(elf.RUNPATH)),
        requires=tuple(_version_needs(file)),
        provides=tuple(_version_definitions(file)),
        build_id=_build_id(file),
    )


def _folders(values: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(folder for value in values for folder in value.split(":") if folder)


def _build_id(file: Elf) -> str:
    for owner, kind, data in file.notes():
        if owner == "GNU" and kind == _GNU_BUILD_ID:
            return data.hex()
    return ""


def _version_needs(file: Elf) -> Iterator[tuple[str, tuple[str, ...]]]:
    start = file.table(elf.VERNEED)
    if start is None:
        return
    budget = _Budget()
    for offset in _chain(file, start, file.dynamic.get(elf.VERNEEDNUM, [0])[0], _NEED, budget):
        _, count, name, first, _ = _NEED.unpack(file.source.read(offset, _NEED.size))
        versions = tuple(
            file.string(record[3])
            for at in _chain(file, offset + first, count, _NEED_VERSION, budget)
            for record in [_NEED_VERSION.unpack(file.source.read(at, _NEED_VERSION.size))]
            if not record[1] & _WEAK
        )
        yield file.string(name), versions


def _version_definitions(file: Elf) -> Iterator[str]:
    start = file.table(elf.VERDEF)
    if start is None:
        return
    count = file.dynamic.get(elf.VERDEFNUM, [0])[0]
    for offset in _chain(file, start, count, _DEFINITION, _Budget()):
        row = _DEFINITION.unpack(file.source.read(offset, _DEFINITION.size))
        if not row[1] & _BASE_DEFINITION:
            name, _ = _DEFINITION_NAME.unpack(file.source.read(offset + row[5], 8))
            yield file.string(name)


class _Budget:
    """Counts records, so that no chain of a hostile file is endless."""

    def __init__(self) -> None:
        self._left = _MAX_RECORDS

    def take(self) -> None:
        self._left -= 1
        if self._left < 0:
            raise BinaryUnreadable("more symbol versions than any real file has")


def _chain(
    file: Elf, start: int, count: int, record: struct.Struct, budget: _Budget
) -> Iterator[int]:
    """Offsets of `count` records, each of which ends with the distance to the next."""
    offset = start
    for _ in range(count):
        budget.take()
        yield offset
        data = file.source.read(offset, record.size)
        step = int.from_bytes(data[-4:], "little")
        if step == 0:
            return
        offset += step
