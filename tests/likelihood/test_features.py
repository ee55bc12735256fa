"""What is stated becomes the same words, whoever states it and in whichever format."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from doctor.facts import Facts
from doctor.intake import parse_input
from doctor.intake.field_report import KEYS, read_field_report
from doctor.likelihood import features
from doctor.matrix import load_matrix
from tests.intake.test_field_report import JUNK

STATED: tuple[tuple[dict[str, Any], tuple[str, ...]], ...] = (
    (
        {"engine": "vllm", "packages": {"vllm": "0.8.5.post1"}},
        ("engine vllm", "engine vllm 0.8", "package vllm", "package vllm 0.8"),
    ),
    (
        {"gpus": [{"name": "NVIDIA GeForce RTX 5090", "memory_gib": 32}]},
        ("vendor nvidia", "card rtx 5090", "capability 12.0", "memory 32", "devices one"),
    ),
    ({"gpus": [{"name": "A100", "count": 8}]}, ("devices many", "capability 8.0")),
    ({"driver": "550.54.15", "cuda_toolkit": "12.4.1"}, ("driver 550", "toolkit 12.4")),
    ({"os": {"distro": "Ubuntu", "version": "22.04"}}, ("os ubuntu", "os ubuntu 22")),
    ({"os": {"wsl": True}}, ("platform wsl2",)),
    ({"npus": [{"name": "910B3"}]}, ("vendor ascend",)),
    (
        {"python": "3.12.3", "packages": {"torch": "2.6.0+cu124"}},
        ("python 3.12", "torch cuda 12.4"),
    ),
    (
        {"engine": "vllm", "engine_args": {"quantization": "awq", "model": "Qwen/Qwen3-8B-AWQ"}},
        ("argument quantization", "argument quantization awq", "model qwen3", "model awq"),
    ),
    ({"container": {"image": "vllm/vllm-openai:v0.8.5"}}, ("image vllm", "image openai")),
    ({"absent": ["nvcc"]}, ("absent", "absent nvcc")),
    ({"env": {"CUDA_HOME": "/usr/local/cuda"}}, ("variable CUDA_HOME",)),
)


def words_of(report: dict[str, Any]) -> frozenset[str]:
    return features(read_field_report(report), load_matrix())


@pytest.mark.parametrize(("report", "expected"), STATED, ids=lambda value: str(value)[:40])
def test_what_is_stated_has_its_words(report: dict[str, Any], expected: tuple[str, ...]) -> None:
    assert words_of(report).issuperset(expected)


def test_nothing_stated_has_no_words() -> None:
    assert features(Facts(), load_matrix()) == frozenset()


def test_a_name_says_the_capability_that_could_have_been_stated() -> None:
    named, told = {"name": "RTX 4090"}, {"name": "RTX 4090", "compute_capability": "8.9"}
    both = [words_of({"gpus": [card]}) for card in (named, told)]
    assert {w for w in both[0] ^ both[1] if not w.startswith("stated ")} == set()


def test_a_list_of_packages_says_what_a_report_says() -> None:
    pasted = parse_input(
        "Package    Version\n---------- -------\ntorch      2.6.0\nvllm       0.8.5\n"
    )
    ours = {w for w in features(pasted.facts, load_matrix()) if w.startswith("package ")}
    assert ours == {
        w
        for w in words_of({"packages": {"torch": "2.6.0", "vllm": "0.8.5"}})
        if w.startswith("package ")
    }


@pytest.mark.parametrize("words", ["the wheel is broken", "a maintainer says it is the driver"])
def test_the_wording_of_notes_and_logs_does_not_count(words: str) -> None:
    report = {"engine": "vllm", "gpus": [{"name": "H100"}]}
    assert words_of({**report, "notes": [words], "log": words}) == words_of(report)


@settings(max_examples=150, deadline=None)
@given(st.dictionaries(st.sampled_from(sorted(KEYS)), JUNK, max_size=6))
def test_no_report_raises(report: dict[str, Any]) -> None:
    assert all(word == word.strip() for word in words_of(report))
