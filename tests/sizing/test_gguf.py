from __future__ import annotations

import os
import struct
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from doctor.errors import UsageError
from doctor.sizing.gguf import read_gguf
from doctor.sizing.gguf_model import model_of_gguf
from doctor.sizing.model import Model
from tests.sizing.measured import matrix
from tests.sizing.writing import (
    LLAMA,
    LLAMA_TENSORS,
    TENSOR_BYTES,
    Tensors,
    gguf,
    text,
    write,
)

MEMORY = matrix().memory


def _model(path: Path) -> Model:
    return model_of_gguf(read_gguf(path, MEMORY), MEMORY)


def test_a_model_is_read_whole(tmp_path: Path) -> None:
    model = _model(write(tmp_path, "tiny.gguf", gguf()))
    assert (model.layers, model.hidden, model.heads, model.kv_heads) == (2, 64, 4, 2)
    assert (model.vocab, model.positions, model.head_dim) == (4, 2048, 16)
    assert model.kinds == {"full": 2}
    assert model.stored is not None
    assert model.stored.total == TENSOR_BYTES
    assert model.stored.by_kind["embedding"] == 512
    assert model.stored.by_layer == {0: 28672, 1: 28672}
    assert model.tied is False


def test_bits_a_weight_come_from_the_tensors(tmp_path: Path) -> None:
    tensors: Tensors = (("token_embd.weight", (256, 2), 12, 288),)
    model = _model(write(tmp_path, "q4.gguf", gguf(tensors=tensors)))
    assert model.quantization is not None
    assert model.quantization.format.bytes_per_weight == 144 / 256
    assert model.tied is True


def test_heads_may_differ_by_layer(tmp_path: Path) -> None:
    metadata = {**LLAMA, "llama.attention.head_count_kv": [0, 2]}
    model = _model(write(tmp_path, "hybrid.gguf", gguf(metadata)))
    assert model.kinds == {"full": 1, "other": 1}
    assert model.kv_heads == 2


def test_sliding_layers_follow_the_architecture(tmp_path: Path) -> None:
    own = {key.replace("llama.", "gemma3."): content for key, content in LLAMA.items()}
    metadata = {
        **own,
        "general.architecture": "gemma3",
        "gemma3.block_count": 12,
        "gemma3.attention.sliding_window": 512,
    }
    model = _model(write(tmp_path, "sliding.gguf", gguf(metadata)))
    assert model.kinds == {"full": 2, "sliding": 10}
    assert model.window == 512


def test_latent_attention_is_told_from_heads_that_were_expanded(tmp_path: Path) -> None:
    own = {key.replace("llama.", "deepseek2."): content for key, content in LLAMA.items()}
    metadata = {
        **own,
        "general.architecture": "deepseek2",
        "deepseek2.attention.kv_lora_rank": 512,
        "deepseek2.rope.dimension_count": 64,
        "deepseek2.attention.head_count_kv": 1,
    }
    latent = _model(write(tmp_path, "latent.gguf", gguf(metadata)))
    assert latent.latent is not None
    assert not latent.expands_latent
    metadata["deepseek2.attention.head_count_kv"] = 4
    assert _model(write(tmp_path, "expanded.gguf", gguf(metadata))).expands_latent


def test_shards_are_read_together(tmp_path: Path) -> None:
    metadata = {**LLAMA, "split.count": 2}
    first = write(tmp_path, "m-00001-of-00002.gguf", gguf(metadata, LLAMA_TENSORS[:4]))
    with pytest.raises(UsageError, match=r"m-00002-of-00002\.gguf is not there"):
        read_gguf(first, MEMORY)
    write(tmp_path, "m-00002-of-00002.gguf", gguf({"split.no": 1}, LLAMA_TENSORS[4:]))
    assert read_gguf(first, MEMORY).size == TENSOR_BYTES


SPOILED = {
    "not a GGUF": b"GGML" + bytes(60),
    "version 99": b"GGUF" + struct.pack("<IQQ", 99, 0, 0),
    "claims .* tensors": gguf(counts=(1 << 40, 1)),
    "claims .* metadata keys": gguf(counts=(0, 1 << 40)),
    "claims .* bytes": b"GGUF" + struct.pack("<IQQQ", 3, 0, 1, 1 << 60) + bytes(64),
    "claims .* elements, ": b"GGUF"
    + struct.pack("<IQQ", 3, 0, 1)
    + text("k")
    + struct.pack("<IIQ", 9, 4, 1 << 62)
    + bytes(64),
    "nested too deeply": b"GGUF"
    + struct.pack("<IQQ", 3, 0, 1)
    + text("k")
    + struct.pack("<I", 9)
    + struct.pack("<IQ", 9, 1) * 50
    + bytes(64),
    "has type 77": b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + text("k") + struct.pack("<I", 77) * 20,
    "beyond the file": gguf()[:-64],
    "of a type that is not known": gguf(tensors=(("t", (32,), 999, 32),)),
    "claims 1125899906842624 x 1125899906842624": gguf(tensors=(("t", (1 << 50, 1 << 50), 0, 32),)),
    "claims 0 x 4": gguf(tensors=(("t", (0, 4), 0, 32),)),
    "has 9 dimensions": gguf(tensors=(("t", (1,) * 9, 0, 32),)),
    "no blocks of Q4_K": gguf(tensors=(("t", (100,), 12, 32),)),
    "comes twice": gguf(tensors=(LLAMA_TENSORS[0], LLAMA_TENSORS[0])),
    "no general.architecture": gguf({"general.name": "x"}),
    "no llama.block_count": gguf({"general.architecture": "llama"}),
    "block_count is -4": gguf({**LLAMA, "llama.block_count": -4}),
    "embedding_length is 4611686018427387904": gguf({**LLAMA, "llama.embedding_length": 1 << 62}),
    "head_count is 'many'": gguf({**LLAMA, "llama.attention.head_count": "many"}),
}


@pytest.mark.parametrize("message", SPOILED)
def test_lies_are_named(message: str, tmp_path: Path) -> None:
    path = write(tmp_path, "spoiled.gguf", SPOILED[message])
    with pytest.raises(UsageError, match=message) as caught:
        _model(path)
    assert "spoiled.gguf" in str(caught.value)
    assert caught.value.hint


def test_tensors_may_not_lie_over_another(tmp_path: Path) -> None:
    whole = bytearray(gguf(tensors=LLAMA_TENSORS[:2]))
    at = whole.index(b"output.weight") + len("output.weight") + 4 + 16 + 4
    whole[at : at + 8] = struct.pack("<Q", 32)
    with pytest.raises(UsageError, match="lies over another"):
        read_gguf(write(tmp_path, "over.gguf", bytes(whole)), MEMORY)


def test_only_regular_files_are_read(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo.gguf"
    os.mkfifo(fifo)
    for path in (fifo, tmp_path, tmp_path / "absent.gguf"):
        with pytest.raises(UsageError, match=str(path)):
            read_gguf(path, MEMORY)


@settings(
    deadline=None, max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(cut=st.integers(0, 900), place=st.integers(0, 899), byte=st.integers(0, 255))
def test_damage_never_ends_in_a_traceback(cut: int, place: int, byte: int, tmp_path: Path) -> None:
    whole = bytearray(gguf())
    whole[place % len(whole)] = byte
    path = write(tmp_path, "damaged.gguf", bytes(whole[: len(whole) - cut]))
    try:
        model = _model(path)
    except UsageError:
        return
    assert model.layers


@settings(
    deadline=None, max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(content=st.binary(max_size=400))
def test_any_bytes_after_the_magic(content: bytes, tmp_path: Path) -> None:
    path = write(tmp_path, "any.gguf", b"GGUF" + struct.pack("<I", 3) + content)
    with pytest.raises(UsageError):
        _model(path)
