"""Models named by family and size alone."""

from __future__ import annotations

import pytest

from doctor.matrix.load import load_matrix
from doctor.rules.model_facts import known_model
from doctor.rules.model_names import loosely_named

MATRIX = load_matrix()


@pytest.mark.parametrize(
    ("name", "heads", "kv_heads"),
    [
        ("Llama 70B", 64, 8),
        ("llama2-7b", 32, 32),
        ("Llama2 70b", 64, 8),
        ("Mistral 7B", 32, 8),
        ("Mixtral 8x7B", 32, 8),
        ("Qwen2.5 72B", 64, 8),
    ],
)
def test_what_all_such_models_share(name: str, heads: int, kv_heads: int) -> None:
    row = known_model(MATRIX, name)
    assert row is not None
    assert (row.heads, row.kv_heads) == (heads, kv_heads)


@pytest.mark.parametrize("name", ["", "Llama", "70B", "my-model", "7b-chat", "DeepSeek 7B", "a b"])
def test_less_names_no_model(name: str) -> None:
    assert known_model(MATRIX, name) is None


@pytest.mark.parametrize(
    ("name", "repo"),
    [
        ("gemma2:27b-instruct-q8_0", "google/gemma-2-27b-it"),
        ("llama3.3:70b-instruct-q4_K_M", "meta-llama/Llama-3.3-70B-Instruct"),
        ("Qwen_Qwen3-14B-AWQ", "Qwen/Qwen3-14B"),
        ("/cache/models--Qwen--Qwen3-8B", "Qwen/Qwen3-8B"),
        ("Qwen3VL-30B-A3B-Instruct-Q4_K_M.gguf", "Qwen/Qwen3-VL-30B-A3B-Instruct"),
        ("Qwen2.5-7B-Instruct-NVFP4A16", "Qwen/Qwen2.5-7B-Instruct"),
    ],
)
def test_one_name_written_otherwise(name: str, repo: str) -> None:
    row = known_model(MATRIX, name)
    assert row is not None
    assert row.repo == repo


@pytest.mark.parametrize(
    ("name", "architecture", "heads"),
    [
        ("someone/omost-llama-3-8b", "LlamaForCausalLM", 32),
        ("Qwen3-32B-128K-UD-Q6_K_XL", "Qwen3ForCausalLM", 64),
        ("dolphin-2.7-mixtral-8x7b.Q4_0", "MixtralForCausalLM", 32),
        ("CapybaraHermes-2.5-Mistral-7B-AWQ", "MistralForCausalLM", 32),
    ],
)
def test_what_was_made_from_a_model_has_its_shape(name: str, architecture: str, heads: int) -> None:
    row = known_model(MATRIX, name)
    assert row is not None
    assert (row.architecture, row.heads) == (architecture, heads)
    assert row.max_positions is None  # how long its requests may be is its own
    assert not row.quantization


@pytest.mark.parametrize(
    "name",
    ["Qwen2.5-VL-7B-Custom", "LLaVA-Video-7B-Qwen2", "gte-Qwen2-7B-instruct", "Mistral-2x7B-chat",
     "Llama-3.1-Nemotron-Tiny-8B", "a-b-c-d-e-f-g-h-i-j-k-llama-3-8b"],
)  # fmt: skip
def test_another_shape_is_not_taken_for_its_base(name: str) -> None:
    assert known_model(MATRIX, name) is None


def test_what_they_do_not_share_is_not_told() -> None:
    """Every figure that is told holds for every model whose name holds all parts."""
    llamas = [r for r in MATRIX.models if {"llama", "70b"} <= set(r.repo.lower().split("-"))]
    row = loosely_named(llamas, "llama 70b")
    assert row is not None
    assert row.layers == 80
    for field in ("vocab", "params_b", "max_positions"):
        told = getattr(row, field)
        assert told is None or {getattr(r, field) for r in llamas} == {told}
