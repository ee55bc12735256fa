"""Number formats by any of their names."""

from __future__ import annotations

import re

from doctor.errors import UsageError
from doctor.matrix.memory import KvFormat, MemoryDomain, WeightFormat

_BITS_STATED = re.compile(r"gguf:(\d{1,2}(?:\.\d{1,6})?)")
_MOST_BITS = 32


def find_weight_format(memory: MemoryDomain, name: str) -> WeightFormat | None:
    """The format of that name or alias; None if it is not known.

    "gguf:4.85" is any GGUF file of that many bits a weight.
    """
    plain = name.strip().lower()
    stated = _BITS_STATED.fullmatch(plain)
    if stated and 0 < float(stated[1]) <= _MOST_BITS:
        return gguf_format(memory, float(stated[1]))
    rows = memory.weight_formats
    return next((row for row in rows if plain == row.key or plain in row.aliases), None)


def gguf_format(memory: MemoryDomain, bits: float) -> WeightFormat:
    """A GGUF file of that many bits a weight, embeddings included."""
    source = next(row.source for row in memory.weight_formats if row.part == "all")
    return WeightFormat(
        key=f"gguf:{bits:g}",
        bytes_per_weight=bits / 8,
        bits=round(bits),
        part="all",
        methods=("gguf",),
        source=source,
        confidence=memory.weight_formats[0].confidence,
    )


def weight_format(memory: MemoryDomain, name: str) -> WeightFormat:
    """The format of that name; raises UsageError with the known ones."""
    found = find_weight_format(memory, name)
    if found is None:
        known = ", ".join(row.key for row in memory.weight_formats)
        raise UsageError(f"number format {name[:40]!r} is not known", f"known: {known}")
    return found


def kv_format(memory: MemoryDomain, name: str) -> KvFormat:
    """The KV cache's format of that name ("auto" is 16 bit); raises UsageError."""
    plain = name.strip().lower()
    for row in memory.kv_formats:
        if plain == row.key or plain in row.aliases:
            return row
    known = ", ".join(row.key for row in memory.kv_formats)
    raise UsageError(f"KV cache format {name[:40]!r} is not known", f"known: auto, {known}")
