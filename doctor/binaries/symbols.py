"""Dynamic symbols of a library: what it leaves open, and whether it defines a name.

Look-ups use the hash table that the loader itself uses (GNU or System V), so that a
table of a hundred thousand names costs a few small reads.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from functools import cached_property
from typing import Optional

from doctor.binaries import elf
from doctor.binaries.elf import Elf
from doctor.binaries.sources import BinaryUnreadable

_SYMBOL = struct.Struct("<IBBHQQ")
_MAX_SYMBOLS = 400_000
_MAX_NAMES = 64 << 20
_MAX_NAME = 8192
_MAX_CHAIN = 4096
_STRSZ = 10
_WEAK = 2
_MASK = 0xFFFFFFFF


class Symbols:
    """The dynamic symbol table of one library."""

    def __init__(self, file: Elf) -> None:
        self._file = file
        self._table = file.table(elf.SYMTAB)
        self._names = file.table(elf.STRTAB)

    def undefined(self, prefixes: tuple[bytes, ...]) -> Iterator[str]:
        """Names with one of the prefixes that others must define; weak ones never count."""
        if self._table is None or self._names is None:
            return
        names = self._all_names()
        rows = self._file.source.read(self._table, self._undefined_end() * _SYMBOL.size)
        for name, info, _, section, _, _ in _SYMBOL.iter_unpack(rows):
            if section == 0 and info >> 4 != _WEAK and names.startswith(prefixes, name):
                end = names.find(b"\0", name, name + _MAX_NAME)
                if end > name:
                    yield names[name:end].decode("utf-8", "replace")

    def defines(self, name: str) -> bool:
        """Tell whether the library defines a name, in any version."""
        if self._table is None:
            return False
        wanted = name.encode("utf-8", "surrogateescape")
        if self._gnu is not None:
            return self._gnu_defines(wanted, self._gnu)
        return self._sysv is not None and self._sysv_defines(wanted, self._sysv)

    @cached_property
    def _gnu(self) -> Optional[_GnuHash]:
        start = self._file.table(elf.GNU_HASH)
        if start is None:
            return None
        found = _GnuHash(start, *struct.unpack("<4I", self._file.source.read(start, 16)))
        if not found.buckets or not found.bloom_size:
            raise BinaryUnreadable("its symbol hash table makes no sense")
        return found

    @cached_property
    def _sysv(self) -> Optional[tuple[int, int, int]]:
        """File offset, number of buckets and number of symbols."""
        start = self._file.table(elf.HASH)
        if start is None:
            return None
        buckets, symbols = struct.unpack("<2I", self._file.source.read(start, 8))
        if not buckets:
            raise BinaryUnreadable("its symbol hash table makes no sense")
        return start, buckets, symbols

    def _undefined_end(self) -> int:
        """Index behind the last symbol that can be undefined."""
        count = 0
        if self._gnu is not None:
            count = self._gnu.first  # the hashed symbols come last and are all defined
        elif self._sysv is not None:
            count = self._sysv[2]
        if count > _MAX_SYMBOLS:
            raise BinaryUnreadable("more symbols than any real file has")
        return count

    def _all_names(self) -> bytes:
        size = self._file.dynamic.get(_STRSZ, [0])[0]
        if size > _MAX_NAMES:
            raise BinaryUnreadable("a larger string table than any real file has")
        return self._file.source.read(self._names or 0, size)

    def _gnu_defines(self, name: bytes, table: _GnuHash) -> bool:
        value = gnu_hash(name)
        if not self._bloom_admits(value, table):
            return False
        index = self._word(table.bucket(value))
        if index < table.first:
            return False
        for _ in range(_MAX_CHAIN):
            entry = self._word(table.chain(index))
            if entry | 1 == value | 1 and self._is_definition(index, name):
                return True
            if entry & 1:
                return False
            index += 1
        return False

    def _bloom_admits(self, value: int, table: _GnuHash) -> bool:
        word = int.from_bytes(self._file.source.read(table.bloom_word(value), 8), "little")
        return bool(word >> value % 64 & word >> (value >> table.shift) % 64 & 1)

    def _sysv_defines(self, name: bytes, table: tuple[int, int, int]) -> bool:
        start, buckets, _ = table
        index = self._word(start + 8 + sysv_hash(name) % buckets * 4)
        for _ in range(_MAX_CHAIN):
            if index == 0:
                return False
            if self._is_definition(index, name):
                return True
            index = self._word(start + 8 + (buckets + index) * 4)
        return False

    def _is_definition(self, index: int, name: bytes) -> bool:
        data = self._file.source.read((self._table or 0) + index * _SYMBOL.size, _SYMBOL.size)
        offset, _, _, section, _, _ = _SYMBOL.unpack(data)
        if section == 0:
            return False
        return self._file.source.read((self._names or 0) + offset, len(name) + 1) == name + b"\0"

    def _word(self, offset: int) -> int:
        return int.from_bytes(self._file.source.read(offset, 4), "little")


class _GnuHash:
    """Places in a GNU hash table, as file offsets."""

    def __init__(self, start: int, buckets: int, first: int, bloom_size: int, shift: int) -> None:
        self.start = start
        self.buckets = buckets
        self.first = first
        self.bloom_size = bloom_size
        self.shift = shift

    def bloom_word(self, value: int) -> int:
        return self.start + 16 + value // 64 % self.bloom_size * 8

    def bucket(self, value: int) -> int:
        return self.start + 16 + self.bloom_size * 8 + value % self.buckets * 4

    def chain(self, index: int) -> int:
        behind = self.start + 16 + self.bloom_size * 8 + self.buckets * 4
        return behind + (index - self.first) * 4


def gnu_hash(name: bytes) -> int:
    """The hash of DT_GNU_HASH. Source: glibc, elf/dl-hash.h."""
    value = 5381
    for byte in name:
        value = value * 33 + byte & _MASK
    return value


def sysv_hash(name: bytes) -> int:
    """The hash of DT_HASH. Source: System V ABI, "Hash Table"."""
    value = 0
    for byte in name:
        value = (value << 4) + byte
        value = (value ^ (value >> 24 & 0xF0)) & 0x0FFFFFFF
    return value
