"""How engines place weights, and the margins of arithmetic: rows that rules read."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import doctor
from doctor.matrix import load_matrix
from doctor.matrix.architectures import ModelRow
from doctor.rules.model_facts import known_model, plain_name

MATRIX = load_matrix()
MEMORY = MATRIX.memory
RULES = "".join(p.read_text() for p in (Path(doctor.__file__).parent / "rules").glob("*.py"))


def test_each_margin_is_read_by_a_rule() -> None:
    asked = set(re.findall(r'margin\(matrix, "([\w-]+)"\)', RULES)) | {"full", "nearly-full"}
    assert {row.key for row in MEMORY.margins} == asked


def test_a_placement_is_of_one_kind() -> None:
    assert {row.holds for row in MEMORY.placements} == {"device", "shared", "process"}


def test_whole_groups_and_blocks_are_of_engines_that_split_heads() -> None:
    odd = [r.engine for r in MEMORY.placements if (r.whole_groups or r.whole_blocks)]
    assert odd
    assert all(r.splits_heads for r in MEMORY.placements if r.engine in odd)


def test_names_of_the_library_say_no_size() -> None:
    """What gives its size needs no default, and a default is a size."""
    sizes = MATRIX.default_sizes
    assert len(sizes) > 100
    assert [name for name in sizes if ":" in name or name != name.lower()] == []
    assert [size for size in sizes.values() if not re.fullmatch(r"(\d+x)?\d+(\.\d+)?b", size)] == []


@pytest.mark.parametrize("row", MATRIX.models, ids=[row.repo for row in MATRIX.models])
def test_widths_go_together(row: ModelRow) -> None:
    """Heads are shared evenly by KV heads; the cache of a token is that of whole layers."""
    if row.heads and row.kv_heads and not row.latent:
        assert row.heads % row.kv_heads == 0
    if row.plain_attention and row.kv_bytes_per_token and row.head_dim:
        layer = 4 * (row.kv_heads or 0) * row.head_dim
        assert row.kv_bytes_per_token % layer == 0
        assert row.kv_bytes_per_token <= layer * (row.layers or 0)
    if row.tower_b is not None:
        assert row.params_b is not None


@pytest.mark.parametrize(
    ("name", "repo"),
    [
        ("qwen2.5:72b", "Qwen/Qwen2.5-72B-Instruct"),
        ("command-r-plus:latest", "CohereForAI/c4ai-command-r-plus"),
        ("/srv/models/Meta-Llama-3.1-8B-Instruct-Q4_K_M.gguf", "meta-llama/Meta-Llama-3.1-8B"),
        ("Qwen2.5 72B AWQ", "Qwen/Qwen2.5-72B-Instruct"),
        ("gemma-3-27b-it-qat", "google/gemma-3-27b-it"),
        ("Yi-34B-Chat-4bits", "01-ai/Yi-34B"),
    ],
)
def test_names_as_people_and_libraries_write_them(name: str, repo: str) -> None:
    row = known_model(MATRIX, name)
    assert row is not None
    assert plain_name(row.repo) == plain_name(repo)
