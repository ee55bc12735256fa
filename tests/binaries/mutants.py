"""Damage done to real samples, the same each time for one seed."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.binaries.written import Library

SAMPLES = Path(__file__).parent / "samples"
Damage = Callable[[bytearray, random.Random], None]
_HUGE = (0xFFFFFFFF, 0x7FFFFFFF, 0xFFFFFFFFFFFFFFFF, 0x7FFFFFFFFFFFFFFF, 1 << 40, 0)


def _flip(data: bytearray, rng: random.Random) -> None:
    for _ in range(rng.randint(1, 24)):
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)


def _truncate(data: bytearray, rng: random.Random) -> None:
    del data[rng.randrange(len(data)) :]


def _zero(data: bytearray, rng: random.Random) -> None:
    start = rng.randrange(len(data))
    length = min(rng.randint(1, 4096), len(data) - start)
    data[start : start + length] = bytes(length)


def _copy(data: bytearray, rng: random.Random) -> None:
    """Lay a piece over another: headers overlap, chains turn back on themselves."""
    length = rng.randint(16, 512)
    source, target = (rng.randrange(max(len(data) - length, 1)) for _ in range(2))
    data[target : target + length] = data[source : source + length]


def _header(data: bytearray, rng: random.Random) -> None:
    """A huge, small or negative number in the ELF header or its program headers."""
    offset = rng.randrange(16, min(600, len(data) - 8))
    struct.pack_into("<Q", data, offset, rng.choice(_HUGE) & (1 << 64) - 1)


def _count(data: bytearray, rng: random.Random) -> None:
    """The same anywhere, where counts and offsets of tables may be."""
    offset = rng.randrange(max(len(data) - 8, 1)) // 4 * 4
    struct.pack_into("<I", data, offset, rng.choice(_HUGE) & 0xFFFFFFFF)


def _fatbin(data: bytearray, rng: random.Random) -> None:
    """A wrong number in the header of a fat binary."""
    at = data.find(b"\x50\xed\x55\xba", rng.randrange(len(data)))
    at = at if at >= 0 else data.find(b"\x50\xed\x55\xba")
    if 0 <= at < len(data) - 100:
        struct.pack_into("<I", data, at + rng.randrange(4, 96, 4), rng.choice(_HUGE) & 0xFFFFFFFF)


_DAMAGES: tuple[Damage, ...] = (_flip, _truncate, _zero, _copy, _header, _count, _fatbin)


def originals(folder: Path) -> list[bytes]:
    """The samples, and a written library with all tables."""
    library = Library(
        soname="libx.so.1",
        needed=("liba.so", "libb.so.2"),
        runpath="$ORIGIN",
        requires={"liba.so": ("A_1", "A_2"), "libb.so.2": ("B_1",)},
        provides=("X_1", "X_2"),
        defines=tuple(f"symbol{n}" for n in range(40)),
        undefined=tuple(f"cuOther{n}" for n in range(40)),
        build_id=bytes(20),
        sections={".hip_fatbin": (1, b"__CLANG_OFFLOAD_BUNDLE__" + bytes(200))},
    )
    written = library.write(folder / "written.so").read_bytes()
    sysv = Library(defines=("one", "two"), undefined=("cuInit",), sysv=True)
    return [
        *(path.read_bytes() for path in sorted(SAMPLES.glob("*.so"))),
        written,
        sysv.write(folder / "sysv.so").read_bytes(),
    ]


def mutants(count: int, seed: int, folder: Path) -> Iterator[bytes]:
    """`count` damaged files, each by one to three damages."""
    rng = random.Random(seed)  # noqa: S311 - the same damage each time
    pool = originals(folder)
    for _ in range(count):
        data = bytearray(rng.choice(pool))
        for damage in rng.choices(_DAMAGES, k=rng.randint(1, 3)):
            if len(data) > 700:
                damage(data, rng)
        yield bytes(data)
