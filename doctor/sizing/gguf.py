"""A model from the header of a GGUF file: its metadata, and every tensor's type and shape.

Nothing of the file is believed: counts, lengths and offsets are checked against its size.
"""

from __future__ import annotations

import math
import re
import struct
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from doctor.errors import UsageError
from doctor.matrix.memory import GgmlType, MemoryDomain
from doctor.sizing.files import Header, opened

MAGIC = b"GGUF"
_VERSIONS = (2, 3)
_STRING, _ARRAY = 8, 9
_SCALARS = {
    0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d",
}  # fmt: skip
# An array of more elements is a vocabulary: only its length matters.
_KEPT_ELEMENTS = 4096
_MOST_PAIRS = 1 << 16
_MOST_TENSORS = 1 << 18
_MOST_DIMENSIONS = 8
_MOST_DEPTH = 4
_LONGEST_NAME = 4096
_MOST_ELEMENTS = 1 << 50
_ALIGNMENT = 32
_SHARD = re.compile(r"(.*)-(\d{5})-of-(\d{5})\.gguf")


@dataclass(frozen=True)
class Length:
    """An array that was skipped: only how many elements it has is known."""

    elements: int


@dataclass(frozen=True)
class Tensor:
    """One tensor: its shape (fastest dimension first), its type, its bytes in the file."""

    name: str
    shape: tuple[int, ...]
    type: GgmlType
    size: int

    @property
    def elements(self) -> int:
        """How many weights it holds."""
        return math.prod(self.shape)


@dataclass(frozen=True)
class Gguf:
    """Metadata and tensors of a GGUF file, all shards of it together."""

    path: Path
    metadata: dict[str, Any] = field(default_factory=dict)
    tensors: tuple[Tensor, ...] = ()

    @property
    def size(self) -> int:
        """Bytes of all tensors."""
        return sum(tensor.size for tensor in self.tensors)


def read_gguf(path: Path, memory: MemoryDomain) -> Gguf:
    """Read the header of a GGUF file, and of its further shards if it is the first of several.

    Raises UsageError, with the place, for damage, lies and missing shards.
    """
    types = {row.id: row for row in memory.ggml_types}
    first = _read_one(path, types)
    shards = [_read_one(other, types) for other in _further_shards(path, first.metadata)]
    tensors = tuple(t for part in (first, *shards) for t in part.tensors)
    names = {tensor.name for tensor in tensors}
    if len(names) != len(tensors):
        raise UsageError(f"{path}: a tensor comes twice", "fetch the file again")
    return Gguf(path, first.metadata, tensors)


def _further_shards(path: Path, metadata: dict[str, Any]) -> list[Path]:
    count = metadata.get("split.count", 1)
    match = _SHARD.fullmatch(path.name)
    if not isinstance(count, int) or count <= 1 or match is None:
        return []
    if not 1 < int(match[3]) <= 9999:
        raise UsageError(f"{path}: says that it is one of {match[3]} parts", "check its name")
    names = [f"{match[1]}-{n:05d}-of-{match[3]}.gguf" for n in range(1, int(match[3]) + 1)]
    others = [path.with_name(name) for name in names if name != path.name]
    absent = [other.name for other in others if not other.exists()]
    if absent:
        raise UsageError(f"{path}: part {absent[0]} is not there", "put all parts into one folder")
    return others


def _read_one(path: Path, types: dict[int, GgmlType]) -> Gguf:
    with opened(path) as header:
        tensors, pairs = _counts(header)
        metadata: dict[str, Any] = {}
        for index in range(pairs):
            key = _text(header, f"key {index}")
            if key in metadata:
                raise header.fault(f"metadata key {key[:60]!r} comes twice")
            metadata[key] = _value(header, header.number("I", f"type of {key[:60]}"), key, 0)
        infos = [_info(header, types, index) for index in range(tensors)]
        _check_places(header, metadata, infos)
        return Gguf(path, metadata, tuple(tensor for tensor, _ in infos))


def _counts(header: Header) -> tuple[int, int]:
    if header.take(4, "the magic") != MAGIC:
        raise header.fault("not a GGUF file")
    version = header.number("I", "the version")
    if version not in _VERSIONS:
        raise header.fault(f"GGUF version {version} is not read here (2 and 3 are)")
    tensors = header.number("Q", "the number of tensors")
    pairs = header.number("Q", "the number of metadata keys")
    # The least that each takes: a length, a byte of name, a type, a value or an offset.
    if tensors > _MOST_TENSORS or tensors * 24 > header.left:
        raise header.fault(f"claims {tensors} tensors in {header.left} bytes")
    if pairs > _MOST_PAIRS or pairs * 13 > header.left:
        raise header.fault(f"claims {pairs} metadata keys in {header.left} bytes")
    return tensors, pairs


def _text(header: Header, what: str, most: int = _LONGEST_NAME) -> str:
    length = header.number("Q", f"length of {what}")
    if length > most or length > header.left:
        raise header.fault(f"{what} claims {length} bytes, {header.left} are left")
    return header.take(length, what).decode("utf-8", "replace")


def _value(header: Header, kind: int, key: str, depth: int) -> Any:
    what = f"value of {key[:60]}"
    if kind in _SCALARS:
        form = _SCALARS[kind]
        return struct.unpack(f"<{form}", header.take(struct.calcsize(f"<{form}"), what))[0]
    if kind == _STRING:
        return _text(header, what, most=header.left)
    if kind == _ARRAY:
        return _array(header, key, depth + 1)
    raise header.fault(f"{what} has type {kind}, which GGUF does not have")


def _array(header: Header, key: str, depth: int) -> Any:
    what = f"array {key[:60]}"
    if depth > _MOST_DEPTH:
        raise header.fault(f"{what} is nested too deeply")
    kind = header.number("I", f"type of {what}")
    elements = header.number("Q", f"length of {what}")
    least = struct.calcsize(f"<{_SCALARS[kind]}") if kind in _SCALARS else 8
    if elements * least > header.left:
        raise header.fault(f"{what} claims {elements} elements, {header.left} bytes are left")
    if kind in _SCALARS and elements > _KEPT_ELEMENTS:
        header.skip(elements * least, what)
        return Length(elements)
    if kind == _STRING:
        for _ in range(elements):
            header.skip(header.number("Q", what), what)
        return Length(elements)
    return [_value(header, kind, key, depth) for _ in range(elements)]


def _info(header: Header, types: dict[int, GgmlType], index: int) -> tuple[Tensor, int]:
    name = _text(header, f"name of tensor {index}")
    what = f"tensor {name[:60]!r}"
    dimensions = header.number("I", f"dimensions of {what}")
    if not 1 <= dimensions <= _MOST_DIMENSIONS:
        raise header.fault(f"{what} has {dimensions} dimensions")
    shape = tuple(header.number("Q", f"shape of {what}") for _ in range(dimensions))
    elements = math.prod(shape)
    if 0 in shape or elements > _MOST_ELEMENTS:
        raise header.fault(f"{what} claims {' x '.join(map(str, shape))} elements")
    kind = types.get(header.number("I", f"type of {what}"))
    if kind is None:
        raise header.fault(f"{what} is of a type that is not known")
    if shape[0] % kind.elements:
        raise header.fault(f"{what}: rows of {shape[0]} are no blocks of {kind.name}")
    offset = header.number("Q", f"offset of {what}")
    return Tensor(name, shape, kind, elements // kind.elements * kind.size), offset


def _check_places(
    header: Header, metadata: dict[str, Any], infos: list[tuple[Tensor, int]]
) -> None:
    """Every tensor must lie inside of the file, and none over another."""
    alignment = metadata.get("general.alignment", _ALIGNMENT)
    if not isinstance(alignment, int) or not 1 <= alignment <= 1 << 20:
        raise header.fault(f"general.alignment is {str(alignment)[:40]}")
    start = -(-header.position // alignment) * alignment
    end = 0
    for tensor, offset in sorted(infos, key=lambda info: info[1]):
        if offset < end:
            raise header.fault(f"tensor {tensor.name[:60]!r} lies over another")
        end = offset + tensor.size
        if start + end > header.size:
            missing = start + end - header.size
            raise header.fault(f"tensor {tensor.name[:60]!r} ends {missing} bytes beyond the file")
