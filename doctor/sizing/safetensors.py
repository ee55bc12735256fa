"""Tensors of safetensors files, from their headers. Nothing of a header is believed."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from doctor.errors import UsageError
from doctor.sizing.files import Header, opened, read_text
from doctor.sizing.model import Stored

# The format itself allows no longer header.
_LONGEST_HEADER = 100_000_000
_MOST_TENSORS = 1 << 20
_MOST_DIMENSIONS = 16
_BITS = {
    "BOOL": 8, "U8": 8, "I8": 8, "F8_E4M3": 8, "F8_E5M2": 8, "F8_E8M0": 8, "F8_E4M3FNUZ": 8,
    "F8_E5M2FNUZ": 8, "I16": 16, "U16": 16, "F16": 16, "BF16": 16, "I32": 32, "U32": 32,
    "F32": 32, "I64": 64, "U64": 64, "F64": 64, "C64": 64, "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6,
}  # fmt: skip
_LAYER = re.compile(r"(?:^|\.)(?:layers|h|blocks|block)\.(\d{1,5})\.")
_KINDS = (
    ("tower", re.compile(r"visual|vision|audio|image|multi_modal_projector|mm_projector")),
    ("embedding", re.compile(r"embed_tokens|wte|tok_embeddings|word_embeddings|embed_in")),
    ("head", re.compile(r"^(?:.*\.)?(?:lm_head|output|embed_out)\.weight$")),
    ("norms", re.compile(r"norm|ln_|\.bias$")),
    ("shared", re.compile(r"shared_expert")),
    ("experts", re.compile(r"experts\.")),
    ("router", re.compile(r"mlp\.gate\.|router|\.gate\.weight")),
    ("latent", re.compile(r"kv_a_proj|q_a_proj")),
    ("kv", re.compile(r"[kv]_proj|\.w[kv]\.")),
    ("linear", re.compile(r"linear_attn")),
    ("state-space", re.compile(r"mixer\.|mamba|ssm")),
    ("attention", re.compile(r"attn|attention|qkv")),
    ("dense", re.compile(r"mlp|feed_forward|ffn")),
)
_INDEX = "model.safetensors.index.json"
_MENDED = "fetch the file again"


@dataclass(frozen=True)
class Tensor:
    """One tensor: its number format, its shape, its bytes in the file."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    size: int


def read_safetensors(path: Path) -> tuple[Tensor, ...]:
    """The tensors of one file; raises UsageError, with the place, for damage and lies."""
    with opened(path) as header:
        length = header.number("Q", "the length of the header")
        if length > _LONGEST_HEADER or length > header.left:
            raise header.fault(f"claims a header of {length} bytes, {header.left} are left")
        table = _table(header.take(length, "the header"), header)
        return _checked(table, header.left, header)


def _table(payload: bytes, header: Header) -> dict[str, Any]:
    try:
        table = json.loads(payload)
    except (ValueError, RecursionError):
        raise header.fault("the header is not JSON") from None
    if not isinstance(table, dict) or len(table) > _MOST_TENSORS:
        raise header.fault("the header is not a table of tensors")
    table.pop("__metadata__", None)
    return table


def _checked(table: dict[str, Any], room: int, header: Header) -> tuple[Tensor, ...]:
    found = [_tensor(name, entry, header) for name, entry in table.items()]
    end = 0
    for tensor, start in sorted(found, key=lambda item: item[1]):
        if start < end:
            raise header.fault(f"tensor {tensor.name[:60]!r} lies over another")
        end = start + tensor.size
        if end > room:
            raise header.fault(
                f"tensor {tensor.name[:60]!r} ends {end - room} bytes beyond the file"
            )
    return tuple(tensor for tensor, _ in found)


def _tensor(name: str, entry: Any, header: Header) -> tuple[Tensor, int]:
    what = f"tensor {name[:60]!r}"
    fields: dict[str, Any] = entry if isinstance(entry, dict) else {}
    dtype = str(fields.get("dtype"))
    if dtype not in _BITS:
        raise header.fault(f"{what} has the number format {dtype[:30]!r}")
    shape = _counts(fields.get("shape"), _MOST_DIMENSIONS)
    places = _counts(fields.get("data_offsets"), 2)
    if shape is None or places is None or len(places) != 2:
        raise header.fault(f"{what} has no shape or no place")
    size = math.prod(shape) * _BITS[dtype] // 8
    claimed = places[1] - places[0]
    if claimed != size:
        raise header.fault(f"{what} takes {claimed} bytes, its shape takes {size}")
    return Tensor(name, dtype, shape, size), places[0]


def _counts(value: Any, most: int) -> tuple[int, ...] | None:
    """A list of sizes, or None for anything else."""
    if not isinstance(value, list) or len(value) > most:
        return None
    sound = all(type(each) is int and 0 <= each < 1 << 50 for each in value)
    return tuple(value) if sound else None


def folder_files(folder: Path) -> tuple[Path, ...]:
    """The weight files of a folder that an engine loads: those of the index, else all.

    Raises UsageError if the index names a file that is not there, or one outside.
    """
    index = folder / _INDEX
    if index.exists():
        return _indexed(folder, read_text(index))
    found = sorted(folder.glob("*.safetensors"))
    # Some repositories hold the same weights once more in their maker's own layout.
    own = [path for path in found if not path.name.startswith("consolidated")]
    return tuple(own or found)


def _indexed(folder: Path, text: str) -> tuple[Path, ...]:
    place = folder / _INDEX
    try:
        names = sorted({str(name) for name in json.loads(text)["weight_map"].values()})
    except (ValueError, RecursionError, KeyError, TypeError, AttributeError):
        raise UsageError(f"{place}: no weight_map", _MENDED) from None
    for name in names:
        if Path(name).name != name:
            raise UsageError(f"{place}: names {name[:60]!r}, outside of the folder", _MENDED)
        if not (folder / name).exists():
            raise UsageError(f"{folder}: {name[:80]} is not there", "fetch all files of the model")
    return tuple(folder / name for name in names)


def kind_of(name: str) -> str:
    """The kind of weights that a tensor holds, by its name."""
    return next((kind for kind, pattern in _KINDS if pattern.search(name)), "other")


def stored(tensors: Iterable[Tensor], layers: int | None, is_quantized: bool) -> Stored:
    """Bytes by kind once loaded; layers beyond those of the model are drafts, not loaded.

    Engines load 32-bit matrices of a checkpoint that is not quantized at 16 bit.
    """
    by_kind: dict[str, int] = {}
    file_bytes = 0
    for tensor in tensors:
        file_bytes += tensor.size
        layer = _LAYER.search(tensor.name)
        if layer and layers and int(layer[1]) >= layers and "visual" not in tensor.name:
            continue
        is_wide = tensor.dtype == "F32" and len(tensor.shape) > 1 and not is_quantized
        kind = kind_of(tensor.name)
        by_kind[kind] = by_kind.get(kind, 0) + (tensor.size // 2 if is_wide else tensor.size)
    return Stored(by_kind, {}, file_bytes)
