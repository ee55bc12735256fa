"""Write small, valid shared libraries: what a compiler would need minutes and a machine for."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from pathlib import Path

from doctor.binaries.symbols import gnu_hash, sysv_hash

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SEGMENT = struct.Struct("<IIQQQQQQ")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
MACHINES = {"x86_64": 62, "aarch64": 183}


@dataclass
class Library:
    """What the file shall say. Symbols are names; sections are names with their bytes."""

    soname: str = ""
    needed: tuple[str, ...] = ()
    rpath: str = ""
    runpath: str = ""
    requires: dict[str, tuple[str, ...]] = field(default_factory=dict)
    provides: tuple[str, ...] = ()
    defines: tuple[str, ...] = ()
    undefined: tuple[str, ...] = ()
    weak: tuple[str, ...] = ()
    build_id: bytes = b""
    machine: str = "x86_64"
    sysv: bool = False
    isa_needed: int = 0
    sections: dict[str, tuple[int, bytes]] = field(default_factory=dict)

    def write(self, path: Path) -> Path:
        """Write the file, with its folders."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(_Writer(self).file())
        return path


class _Writer:
    """Lays one library out; addresses equal file offsets."""

    def __init__(self, library: Library) -> None:
        self.written = library
        self.strings = bytearray(b"\0")
        self.body = bytearray()
        self.start = _HEADER.size + 4 * _SEGMENT.size

    def file(self) -> bytes:
        library = self.written
        tags: list[tuple[int, int]] = [(1, self._string(name)) for name in library.needed]
        for tag, text in ((14, library.soname), (15, library.rpath), (29, library.runpath)):
            tags += [(tag, self._string(text))] if text else []
        tags += self._versions() + self._symbols()
        note = self._place(_note(library.build_id), 4) if library.build_id else 0
        properties = _properties(library.isa_needed)
        isa = self._place(properties, 8) if library.isa_needed else 0
        tags += [(5, self._place(bytes(self.strings), 1)), (10, len(self.strings)), (0, 0)]
        dynamic = b"".join(struct.pack("<QQ", *tag) for tag in tags)
        dynamic_at = self._place(dynamic, 8)
        sections, count = self._sections()
        segments = [
            (1, 0, self.start + len(self.body), 4096),
            (2, dynamic_at, len(dynamic), 8),
            (4, note, len(_note(library.build_id)) if note else 0, 4),
            (4, isa, len(properties) if isa else 0, 8),
        ]
        table = b"".join(_SEGMENT.pack(k, 4, o, o, o, n, n, a) for k, o, n, a in segments)
        head = _HEADER.pack(
            b"\x7fELF\x02\x01\x01".ljust(16, b"\0"), 3, MACHINES[library.machine], 1, 0,
            _HEADER.size, sections, 0, 64, _SEGMENT.size, len(segments), _SECTION.size,
            count, count - 1 if count else 0,
        )  # fmt: skip
        return (head + table).ljust(self.start, b"\0") + bytes(self.body)

    def _string(self, text: str) -> int:
        offset = len(self.strings)
        self.strings += text.encode() + b"\0"
        return offset

    def _place(self, data: bytes, align: int) -> int:
        self.body += b"\0" * (-(self.start + len(self.body)) % align)
        offset = self.start + len(self.body)
        self.body += data
        return offset

    def _versions(self) -> list[tuple[int, int]]:
        tags: list[tuple[int, int]] = []
        needs = list(self.written.requires.items())
        data = b""
        for place, (name, versions) in enumerate(needs):
            step = 16 + 16 * len(versions) if place < len(needs) - 1 else 0
            data += struct.pack("<HHIII", 1, len(versions), self._string(name), 16, step)
            for last, version in enumerate(versions, 1 - len(versions)):
                step = 0 if last == 0 else 16
                data += struct.pack("<IHHII", 0, 0, 2, self._string(version), step)
        if needs:
            tags += [(0x6FFFFFFE, self._place(data, 8)), (0x6FFFFFFF, len(needs))]
        data = b""
        for last, version in enumerate(self.written.provides, 1 - len(self.written.provides)):
            step = 0 if last == 0 else 28
            data += struct.pack("<HHHHIII", 1, 0, 2, 1, 0, 20, step)
            data += struct.pack("<II", self._string(version), 0)
        if data:
            tags += [(0x6FFFFFFC, self._place(data, 8)), (0x6FFFFFFD, len(self.written.provides))]
        return tags

    def _symbols(self) -> list[tuple[int, int]]:
        """Undefined and weak symbols first, defined ones behind, as hash tables want them."""
        library = self.written
        defined = sorted(library.defines, key=lambda name: gnu_hash(name.encode()) % 4)
        rows = [_SYMBOL.pack(0, 0, 0, 0, 0, 0)]
        rows += [_SYMBOL.pack(self._string(n), 0x12, 0, 0, 0, 0) for n in library.undefined]
        rows += [_SYMBOL.pack(self._string(n), 0x22, 0, 0, 0, 0) for n in library.weak]
        first = len(rows)
        rows += [_SYMBOL.pack(self._string(n), 0x12, 0, 1, 64, 8) for n in defined]
        names = [b"", *(n.encode() for n in (*library.undefined, *library.weak, *defined))]
        tags = [(6, self._place(b"".join(rows), 8)), (11, _SYMBOL.size)]
        if library.sysv:
            return [*tags, (4, self._place(_sysv_table(names), 8))]
        return [*tags, (0x6FFFFEF5, self._place(_gnu_table(names, first), 8))]

    def _sections(self) -> tuple[int, int]:
        if not self.written.sections:
            return 0, 0
        names, rows = bytearray(b"\0"), [_SECTION.pack(*(0,) * 10)]
        everything = {**self.written.sections, ".shstrtab": (3, b"")}
        at = {name: len(names) + sum(len(n) + 1 for n in list(everything)[:i])
              for i, name in enumerate(everything)}  # fmt: skip
        names += b"".join(name.encode() + b"\0" for name in everything)
        for name, (kind, data) in everything.items():
            held = bytes(names) if name == ".shstrtab" else data
            place = self._place(held, 4096 if name == ".hip_fatbin" else 16)
            rows.append(_SECTION.pack(at[name], kind, 2, place, place, len(held), 0, 0, 4, 0))
        return self._place(b"".join(rows), 8), len(rows)


def _note(build_id: bytes) -> bytes:
    return struct.pack("<III", 4, len(build_id), 3) + b"GNU\0" + build_id


def _properties(isa: int) -> bytes:
    """A GNU property note that says which x86-64 levels the file needs."""
    body = struct.pack("<IIIxxxx", 0xC0008002, 4, isa)
    return struct.pack("<III", 4, len(body), 5) + b"GNU\0" + body


def _gnu_table(names: list[bytes], first: int) -> bytes:
    hashes = [gnu_hash(name) for name in names]
    buckets, bloom, chain = [0] * 4, 0, b""
    for index in range(first, len(names)):
        value = hashes[index]
        bloom |= 1 << value % 64 | 1 << (value >> 6) % 64
        buckets[value % 4] = buckets[value % 4] or index
        last = index + 1 == len(names) or hashes[index + 1] % 4 != value % 4
        chain += struct.pack("<I", value & ~1 | last)
    return struct.pack("<4IQ4I", 4, first, 1, 6, bloom, *buckets) + chain


def _sysv_table(names: list[bytes]) -> bytes:
    buckets, chain = [0] * 3, [0] * len(names)
    for index in range(1, len(names)):
        slot = sysv_hash(names[index]) % 3
        chain[index], buckets[slot] = buckets[slot], index
    return struct.pack(f"<2I3I{len(names)}I", 3, len(names), *buckets, *chain)


def note(owner: bytes, kind: int, data: bytes) -> bytes:
    """One ELF note, padded to four bytes."""
    name = owner + b"\0"
    padded = name.ljust((len(name) + 3) // 4 * 4, b"\0")
    head = struct.pack("<III", len(name), len(data), kind)
    return head + padded + data.ljust((len(data) + 3) // 4 * 4, b"\0")
