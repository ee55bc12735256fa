"""Writes small model files: GGUF and safetensors, sound or spoiled on purpose."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

Tensors = Sequence[tuple[str, tuple[int, ...], int, int]]

LLAMA: dict[str, Any] = {
    "general.architecture": "llama",
    "general.name": "tiny",
    "llama.block_count": 2,
    "llama.embedding_length": 64,
    "llama.feed_forward_length": 128,
    "llama.attention.head_count": 4,
    "llama.attention.head_count_kv": 2,
    "llama.context_length": 2048,
    "tokenizer.ggml.tokens": ["a", "b", "c", "d"],
}
# Name, shape, type (0 is F32, 1 F16), bytes.
LLAMA_TENSORS: Tensors = (
    ("token_embd.weight", (64, 4), 1, 512),
    ("output.weight", (64, 4), 1, 512),
    ("output_norm.weight", (64,), 0, 256),
    ("blk.0.attn_q.weight", (64, 64), 1, 8192),
    ("blk.0.attn_k.weight", (64, 32), 1, 4096),
    ("blk.0.ffn_up.weight", (64, 128), 1, 16384),
    ("blk.1.attn_q.weight", (64, 64), 1, 8192),
    ("blk.1.attn_k.weight", (64, 32), 1, 4096),
    ("blk.1.ffn_up.weight", (64, 128), 1, 16384),
)
TENSOR_BYTES = sum(size for *_, size in LLAMA_TENSORS)


def text(value: str) -> bytes:
    data = value.encode()
    return struct.pack("<Q", len(data)) + data


def value(content: Any) -> bytes:
    """A metadata value with its type."""
    if isinstance(content, bool):
        return struct.pack("<I?", 7, content)
    if isinstance(content, int):
        return struct.pack("<Iq", 11, content)
    if isinstance(content, float):
        return struct.pack("<If", 6, content)
    if isinstance(content, str):
        return struct.pack("<I", 8) + text(content)
    kind = 8 if content and isinstance(content[0], str) else 11
    body = [text(c) if kind == 8 else struct.pack("<q", c) for c in content]
    return struct.pack("<IIQ", 9, kind, len(content)) + b"".join(body)


def gguf(
    metadata: Mapping[str, Any] = LLAMA,
    tensors: Tensors = LLAMA_TENSORS,
    counts: tuple[int, int] | None = None,
) -> bytes:
    """The bytes of a GGUF file; `counts` are claimed in place of the true ones."""
    claimed = counts or (len(tensors), len(metadata))
    head = b"GGUF" + struct.pack("<IQQ", 3, *claimed)
    pairs = b"".join(text(key) + value(content) for key, content in metadata.items())
    infos, offset = b"", 0
    for name, shape, kind, size in tensors:
        sides = struct.pack(f"<I{len(shape)}Q", len(shape), *shape)
        infos += text(name) + sides + struct.pack("<IQ", kind, offset)
        offset += -(-size // 32) * 32
    header = head + pairs + infos
    return header + bytes(-len(header) % 32) + bytes(offset)


def safetensors(table: Mapping[str, Any], room: int, length: int | None = None) -> bytes:
    """The bytes of a safetensors file with that header and so many bytes of data."""
    payload = json.dumps(table).encode()
    claimed = len(payload) if length is None else length
    return struct.pack("<Q", claimed) + payload + bytes(room)


def weights(names: Mapping[str, tuple[str, tuple[int, ...], int]]) -> bytes:
    """A sound safetensors file: number format, shape and bytes by name."""
    table, offset = {}, 0
    for name, (dtype, shape, size) in names.items():
        places = [offset, offset + size]
        table[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": places}
        offset += size
    return safetensors(table, offset)


def write(folder: Path, name: str, content: bytes | str | Mapping[str, Any]) -> Path:
    path = folder / name
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path
