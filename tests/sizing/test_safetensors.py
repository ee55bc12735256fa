from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from doctor.errors import UsageError
from doctor.sizing.safetensors import folder_files, kind_of, read_safetensors, stored
from doctor.sizing.source import find_model
from tests.sizing.measured import matrix
from tests.sizing.writing import safetensors, weights, write

CONFIG: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "num_hidden_layers": 1,
    "hidden_size": 8,
    "num_attention_heads": 2,
    "intermediate_size": 16,
    "vocab_size": 64,
    "max_position_embeddings": 32,
}
SOUND = {
    "model.embed_tokens.weight": ("BF16", (64, 8), 1024),
    "model.layers.0.self_attn.k_proj.weight": ("BF16", (8, 8), 128),
    "model.layers.0.mlp.up_proj.weight": ("BF16", (16, 8), 256),
    "model.norm.weight": ("BF16", (8,), 16),
    "lm_head.weight": ("BF16", (64, 8), 1024),
}


def _entry(dtype: Any = "F16", shape: Any = (4,), places: Any = (0, 8)) -> dict[str, Any]:
    return {"t": {"dtype": dtype, "shape": shape, "data_offsets": places}}


def test_tensors_by_kind(tmp_path: Path) -> None:
    tensors = read_safetensors(write(tmp_path, "m.safetensors", weights(SOUND)))
    found = stored(tensors, 1, is_quantized=False)
    assert found.by_kind == {"embedding": 1024, "kv": 128, "dense": 256, "norms": 16, "head": 1024}
    assert found.file_bytes == 2448


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("model.layers.3.mlp.experts.7.down_proj.weight", "experts"),
        ("model.layers.3.mlp.shared_experts.up_proj.weight", "shared"),
        ("model.layers.3.mlp.gate.weight", "router"),
        ("model.layers.0.self_attn.kv_a_proj_with_mqa.weight", "latent"),
        ("model.layers.0.self_attn.o_proj.weight", "attention"),
        ("model.layers.0.linear_attn.in_proj_qkvz.weight", "linear"),
        ("visual.blocks.0.attn.qkv.weight", "tower"),
        ("model.layers.0.input_layernorm.weight", "norms"),
    ],
)
def test_kinds_by_name(name: str, kind: str) -> None:
    assert kind_of(name) == kind


def test_wide_matrices_are_loaded_at_16_bit_unless_they_are_scales(tmp_path: Path) -> None:
    names = {
        "model.layers.0.mlp.up_proj.weight": ("F32", (16, 8), 512),
        "n.norm": ("F32", (8,), 32),
    }
    tensors = read_safetensors(write(tmp_path, "m.safetensors", weights(names)))
    assert stored(tensors, 1, is_quantized=False).by_kind == {"dense": 256, "norms": 32}
    assert stored(tensors, 1, is_quantized=True).by_kind["dense"] == 512


def test_draft_layers_are_not_loaded(tmp_path: Path) -> None:
    names = {
        "model.layers.0.mlp.up_proj.weight": ("BF16", (16, 8), 256),
        "model.layers.1.mlp.up_proj.weight": ("BF16", (16, 8), 256),
    }
    tensors = read_safetensors(write(tmp_path, "m.safetensors", weights(names)))
    assert stored(tensors, 1, is_quantized=False).total == 256


SPOILED = {
    "claims a header": safetensors({}, 0, length=1 << 50),
    "is not JSON": safetensors({}, 8, length=1),
    "not a table": struct.pack("<Q", 2) + b"[]",
    "number format 'F7'": safetensors(_entry("F7"), 8),
    "no shape or no place": safetensors(_entry(shape="wide"), 8),
    "its shape takes 8": safetensors(_entry(places=(0, 6)), 8),
    "beyond the file": safetensors(_entry(places=(8, 16)), 8),
    "needs 8 bytes": b"abc",
}


@pytest.mark.parametrize("message", SPOILED)
def test_lies_are_named(message: str, tmp_path: Path) -> None:
    path = write(tmp_path, "spoiled.safetensors", SPOILED[message])
    with pytest.raises(UsageError, match=message) as caught:
        read_safetensors(path)
    assert "spoiled.safetensors" in str(caught.value)


@pytest.mark.parametrize("shape", [(-1, 4), (1 << 60, 4), (True, 4), (0.5, 4), tuple(range(1, 40))])
def test_absurd_shapes_are_refused(shape: tuple[object, ...], tmp_path: Path) -> None:
    path = write(tmp_path, "shape.safetensors", safetensors(_entry(shape=shape), 8))
    with pytest.raises(UsageError, match="shape"):
        read_safetensors(path)


def test_tensors_may_not_lie_over_another(tmp_path: Path) -> None:
    table = {**_entry(), "u": _entry(places=(4, 12))["t"]}
    with pytest.raises(UsageError, match="lies over another"):
        read_safetensors(write(tmp_path, "over.safetensors", safetensors(table, 12)))


def test_a_folder_is_read_as_an_engine_would(tmp_path: Path) -> None:
    write(tmp_path, "config.json", CONFIG)
    write(tmp_path, "model-1.safetensors", weights(SOUND))
    # The same weights once more, in the layout of their maker.
    write(tmp_path, "consolidated.safetensors", weights(SOUND))
    model = find_model(matrix(), str(tmp_path))
    assert model.stored is not None
    assert model.stored.total == 2448
    assert model.hidden == 8


def test_the_index_decides_and_may_not_lead_astray(tmp_path: Path) -> None:
    write(tmp_path, "model-1.safetensors", weights(SOUND))
    index = "model.safetensors.index.json"
    write(tmp_path, index, {"weight_map": {"a": "model-1.safetensors"}})
    assert [path.name for path in folder_files(tmp_path)] == ["model-1.safetensors"]
    for map_, message in (
        ({"weight_map": {"a": "model-2.safetensors"}}, "model-2.safetensors is not there"),
        ({"weight_map": {"a": "../secret.safetensors"}}, "outside of the folder"),
        ({"weight_map": [1]}, "no weight_map"),
    ):
        write(tmp_path, index, map_)
        with pytest.raises(UsageError, match=message):
            folder_files(tmp_path)


@settings(
    deadline=None, max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(place=st.integers(0, 400), byte=st.integers(0, 255), cut=st.integers(0, 3000))
def test_damage_never_ends_in_a_traceback(place: int, byte: int, cut: int, tmp_path: Path) -> None:
    whole = bytearray(weights(SOUND))
    whole[place % len(whole)] = byte
    path = write(tmp_path, "damaged.safetensors", bytes(whole[: max(len(whole) - cut, 0)]))
    try:
        tensors = read_safetensors(path)
    except UsageError:
        return
    assert stored(tensors, 1, is_quantized=False).file_bytes >= 0
