"""What vendors write into notes: forward compatibility of libcuda, toolkit, processor level."""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Optional

from doctor.binaries.elf import Elf
from doctor.binaries.fatbin import Cubin
from doctor.binaries.packing import unpack
from doctor.binaries.sources import BinaryUnreadable, BytesSource
from doctor.facts import Version

_COMPAT_SECTION = ".note.cuda.fwd_compatibility"
_COMPAT_OWNER = b"NVIDIA Corporation"
_TOOLKIT_SECTION = ".note.nv.tkinfo"
_RELEASE = re.compile(rb"release (\d{1,3}\.\d{1,3}), V(\d{1,3}\.\d{1,3}\.\d{1,4})")
_GNU_PROPERTIES = 5
_X86_ISA_NEEDED = 0xC0008002
_X86_LEVELS = ((2, "x86-64-v2"), (4, "x86-64-v3"), (8, "x86-64-v4"))
_MAX_NOTE = 1 << 16


@dataclass(frozen=True)
class ForwardCompatibility:
    """What a compat libcuda says of itself.

    `cuda` is the CUDA version it brings, `branches` the kernel driver branches that it
    may run on, `brands` the NVML brand numbers of the cards; None where it says nothing.
    """

    cuda: Optional[Version] = None
    branches: Optional[tuple[int, ...]] = None
    brands: Optional[tuple[int, ...]] = None


def forward_compatibility(file: Elf) -> Optional[ForwardCompatibility]:
    """Read the note of a compat libcuda, or None if there is none.

    The note is JSON with the keys "CUDA Version", "Driver" and "Device", in any case.
    Source: NVIDIA container toolkit, cmd/nvidia-cdi-hook/cudacompat/cuda-elf-header.go.
    """
    section = file.section(_COMPAT_SECTION)
    if section is None or not 0 < section.size <= _MAX_NOTE:
        return None
    data = file.source.read(section.offset, section.size)
    # Its padding is not always as the ELF standard has it, so the JSON is looked for.
    start, end = data.find(b"{"), data.rfind(b"}")
    if _COMPAT_OWNER not in data[: max(start, 0)]:
        return None
    return parse_compatibility(data[start : end + 1].decode("utf-8", "replace"))


def parse_compatibility(text: str) -> Optional[ForwardCompatibility]:
    """Read the note's JSON; None if it is something else."""
    try:
        loaded = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(loaded, dict):
        return None
    fields = {str(key).lower(): value for key, value in loaded.items()}
    cuda = fields.get("cuda version")
    return ForwardCompatibility(
        Version.maybe(cuda) if isinstance(cuda, str) else None,
        _numbers(fields.get("driver")),
        _numbers(fields.get("device")),
    )


def _numbers(value: Any) -> Optional[tuple[int, ...]]:
    if not isinstance(value, list) or not all(type(item) is int for item in value):
        return None
    return tuple(value)


def toolkit_of(cubin: Cubin) -> Optional[Version]:
    """The exact toolkit that made a cubin ("12.8.93"), or None if it cannot be read."""
    try:
        data = unpack(cubin)
        section = Elf(BytesSource(data)).section(_TOOLKIT_SECTION)
    except BinaryUnreadable:
        return None
    if section is None:
        return None
    match = _RELEASE.search(data[section.offset : section.offset + section.size])
    return Version(match[2].decode("ascii")) if match else None


def processor_levels(file: Elf) -> tuple[str, ...]:
    """The x86-64 levels that the whole file was compiled to need ("x86-64-v3"); mostly none."""
    for owner, kind, body in file.notes(align=8):
        if owner == "GNU" and kind == _GNU_PROPERTIES:
            for number, value in _properties(body):
                if number == _X86_ISA_NEEDED:
                    return tuple(name for bit, name in _X86_LEVELS if value & bit)
    return ()


def _properties(data: bytes) -> Iterator[tuple[int, int]]:
    position = 0
    while position + 12 <= len(data):
        kind, size = struct.unpack_from("<II", data, position)
        if size >= 4:
            yield kind, struct.unpack_from("<I", data, position + 8)[0]
        position += 8 + (size + 7) // 8 * 8
