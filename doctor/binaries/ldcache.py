"""/etc/ld.so.cache: which file the loader takes for a library name.

Source: glibc, sysdeps/generic/dl-cache.h (format "glibc-ld.so.cache1.1").
"""

from __future__ import annotations

import struct
from typing import Optional

_MAGIC = b"glibc-ld.so.cache1.1"
_OLD_MAGIC = b"ld.so-1.7.0"
_HEADER = struct.Struct("<20sIIB3xI12x")
_OLD_HEADER = struct.Struct("<12sI")
_OLD_ENTRY = 12
_ENTRY = struct.Struct("<iIIIQ")
_FLAGS = {0x0303: "x86_64", 0x0A03: "aarch64"}
_MAX_ENTRIES = 200_000


def parse_cache(data: bytes) -> dict[tuple[str, str], tuple[str, ...]]:
    """Paths by machine and library name, in the loader's order; empty if it is no cache.

    Entries for processors with special abilities (hwcap) are left out.
    """
    start = _start(data)
    if start is None or len(data) < start + _HEADER.size:
        return {}
    _, count, _, _, _ = _HEADER.unpack_from(data, start)
    found: dict[tuple[str, str], tuple[str, ...]] = {}
    first = start + _HEADER.size
    for place in range(min(count, _MAX_ENTRIES)):
        if first + (place + 1) * _ENTRY.size > len(data):
            break
        flags, key, value, _, hwcap = _ENTRY.unpack_from(data, first + place * _ENTRY.size)
        machine = _FLAGS.get(flags)
        if machine is not None and hwcap == 0:
            name, path = _text(data, start + key), _text(data, start + value)
            found[machine, name] = (*found.get((machine, name), ()), path)
    return found


def _start(data: bytes) -> Optional[int]:
    """Where the new format begins: at once, or aligned behind entries of the old one."""
    if data.startswith(_MAGIC):
        return 0
    if not data.startswith(_OLD_MAGIC) or len(data) < _OLD_HEADER.size:
        return None
    _, count = _OLD_HEADER.unpack_from(data)
    start: int = (_OLD_HEADER.size + count * _OLD_ENTRY + 7) // 8 * 8
    return start if data[start : start + len(_MAGIC)] == _MAGIC else None


def _text(data: bytes, offset: int) -> str:
    end = data.find(b"\0", offset, offset + 4096)
    return data[offset : max(end, offset)].decode("utf-8", "replace")
