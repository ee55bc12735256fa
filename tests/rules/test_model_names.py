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


def test_what_they_do_not_share_is_not_told() -> None:
    """Every figure that is told holds for every model whose name holds all parts."""
    llamas = [r for r in MATRIX.models if {"llama", "70b"} <= set(r.repo.lower().split("-"))]
    row = loosely_named(llamas, "llama 70b")
    assert row is not None
    assert row.layers == 80
    for field in ("vocab", "params_b", "max_positions"):
        told = getattr(row, field)
        assert told is None or {getattr(r, field) for r in llamas} == {told}
