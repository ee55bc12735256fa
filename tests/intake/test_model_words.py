"""What notes tell of a model."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from doctor.intake.field_report import read_field_report


@pytest.mark.parametrize(
    ("note", "key", "figure"),
    [
        ("moe_intermediate_size of the model 320, FP8 blocks", "moe_intermediate_size", 320),
        ("config.json: num_attention_heads: 52", "num_attention_heads", 52),
        ("its num_key_value_heads is 2", "num_key_value_heads", 2),
        ("vocab_size=65027", "vocab_size", 65027),
    ],
)
def test_figures_under_their_names(note: str, key: str, figure: int) -> None:
    report = {"engine": "vllm", "engine_args": {"model": "own"}, "notes": [note]}
    assert (read_field_report(report).workloads[0].model.value or {}).get(key) == figure


def test_what_is_stated_is_kept() -> None:
    args = {"model": "own", "num_attention_heads": 40}
    report = {"engine": "vllm", "engine_args": args, "notes": ["num_attention_heads 52"]}
    assert (read_field_report(report).workloads[0].model.value or {})["num_attention_heads"] == 40


@pytest.mark.parametrize("note", ["heads are many", "52 heads", "hidden layers 3", ""])
def test_prose_is_no_figure(note: str) -> None:
    report = {"engine": "vllm", "engine_args": {"model": "own"}, "notes": [note]}
    assert not read_field_report(report).workloads[0].model.is_known


@pytest.mark.parametrize(
    ("note", "is_told"),
    [
        ("layers are offloaded to disk", True),
        ("loaded with device_map auto", True),
        ("the experts run on the CPU", True),
        ("a CPU with 64 cores", False),
        ("it fits", False),
        ("the text encoder runs on the CPU", False),
        ("VAE and CLIP in RAM", False),
    ],
)
def test_weights_on_the_host(note: str, is_told: bool) -> None:
    report = {"engine": "transformers", "engine_args": {"model": "own"}, "notes": [note]}
    args = read_field_report(report).workloads[0].args.value or {}
    assert ("cpu_offload" in args) is is_told


@pytest.mark.parametrize(
    ("note", "args", "gib"),
    [
        ("weights take 60.25 GB of each GPU", {"tensor_parallel_size": 8}, 60.25),
        ("the weights alone need 16 GiB", {}, 16.0),
        ("weights are of 16 GB", {}, 14.9),
        ("weights take 480 GB", {"tensor_parallel_size": 8}, None),
        ("weights take long to load", {}, None),
    ],
)
def test_what_weights_take(note: str, args: dict[str, int], gib: float | None) -> None:
    report = {"engine": "vllm", "engine_args": {"model": "own", **args}, "notes": [note]}
    measured = read_field_report(report).workloads[0].measured.value or {}
    assert measured.get("weights_gib") == (None if gib is None else pytest.approx(gib, abs=0.01))


@pytest.mark.parametrize(
    ("note", "needed", "left"),
    [
        ("1.8 GiB of KV cache are needed for that length", 1.8, None),
        ("one request needs 24.0 GB KV cache", 24.0, None),
        ("3.05 GiB KV cache is needed, larger than the available KV cache (2.5 GiB)", 3.05, 2.5),
        ("0.35 GiB are left for the KV cache", None, 0.35),
        ("10 GiB are reserved for the cache", None, None),
        ("needs 16 GB for the cache", None, None),
    ],
)
def test_what_a_cache_needs(note: str, needed: float | None, left: float | None) -> None:
    report = {"engine": "vllm", "engine_args": {"model": "own"}, "notes": [note]}
    measured = read_field_report(report).workloads[0].measured.value or {}
    assert (measured.get("kv_needed_gib"), measured.get("kv_gib")) == (needed, left)


@given(st.text(max_size=200))
def test_no_note_raises(note: str) -> None:
    read_field_report({"engine": "vllm", "engine_args": {"model": "own"}, "notes": [note]})
