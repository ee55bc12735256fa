"""Engines, versions and arguments in the forms in which people give them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from doctor.intake.engine_words import named_engine
from doctor.intake.field_report import read_field_report
from doctor.intake.typed_arguments import typed


@pytest.mark.parametrize(
    "text",
    ["vLLM 0.8.5", "vllm v0.8.5", "vllm==0.8.5", "vllm (0.8.5)", "vllm (v0.8.5)", "vllm: 0.8.5",
     "vllm@0.8.5", "vLLM server 0.8.5", "xinference vllm 0.8.5", "vllm docker 0.8.5"],
)  # fmt: skip
def test_a_name_with_a_version(text: str) -> None:
    name, version = named_engine(text)
    assert (name, str(version)) == ("vllm", "0.8.5")


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("vllm main", "vllm"),
        ("vllm (nightly)", "vllm"),
        ("vllm-openai", "vllm"),
        ("vllm serve", "vllm"),
        ("Xinference", ""),
        ("vllm-ascend", "vllm-ascend"),
        ("llama.cpp server", "llama.cpp"),
        ("llama-cpp-python", "llama-cpp-python"),
        ("triton-server", "triton-server"),
        ("vllm.cpp", "vllm.cpp"),
        ("gpu-operator", "gpu-operator"),
        ("driver", "driver"),
        ("", ""),
    ],
)
def test_a_name_with_other_words(text: str, name: str) -> None:
    assert named_engine(text)[0] == name


def test_a_front_end_stands_for_the_engine_that_is_installed() -> None:
    report = {"engine": "Xinference", "packages": {"vllm": "0.8.5", "torch": "2.6.0"}}
    (work,) = read_field_report(report).workloads
    assert (work.engine, str(work.version.value)) == ("vllm", "0.8.5")


def test_an_image_names_its_engine() -> None:
    report = {"container": {"image": "vllm/vllm-openai:v0.8.5"}}
    assert [work.engine for work in read_field_report(report).workloads] == ["vllm"]


EXPECTED = {"model": "org/m", "tensor_parallel_size": 8, "quantization": "awq"}
LINE = "--model org/m --tensor-parallel-size 8 --quantization awq"


@pytest.mark.parametrize(
    "stated",
    [
        LINE,
        LINE.split(),
        {"command": f"python -m vllm.entrypoints.openai.api_server {LINE}"},
        {"cmd": "vllm serve org/m -tp 8 -q awq"},
        {"args": LINE.split()},
        {"model": "org/m/", "-tp": "8", "quant_algo": "AWQ"},
    ],
)
def test_arguments_as_a_line_or_as_its_parts(stated: Any) -> None:
    (work,) = read_field_report({"engine": "vllm", "engine_args": stated}).workloads
    found = work.args.value or {}
    assert {key: found.get(key) for key in EXPECTED} == EXPECTED


@pytest.mark.parametrize(
    "note",
    [
        "vllm serve org/m --tensor-parallel-size 8 --quantization awq",
        "$ docker run --gpus all vllm/vllm-openai:v0.8.5 " + LINE,
    ],
)
def test_a_note_that_is_the_command(note: str) -> None:
    (work,) = read_field_report({"engine": "vllm", "notes": [note]}).workloads
    found = work.args.value or {}
    assert {key: found.get(key) for key in EXPECTED} == EXPECTED


def test_a_command_of_which_a_note_only_speaks() -> None:
    report = {"engine": "vllm", "notes": ["with `vllm serve org/m` it works"]}
    assert not read_field_report(report).workloads[0].args.is_known


def test_what_the_arguments_state_counts_before_a_note() -> None:
    report = {"engine": "vllm", "engine_args": {"model": "a/b"}, "notes": ["vllm serve c/d -tp 8"]}
    assert read_field_report(report).workloads[0].args.value == {"model": "a/b"}


@settings(max_examples=200, deadline=None)
@given(
    st.text(max_size=200), st.recursive(st.none() | st.text(max_size=60), st.lists, max_leaves=5)
)
def test_nothing_raises(text: str, value: Any) -> None:
    named_engine(text)
    typed("vllm", {"args": value, "command": text})
    typed("", value)


@pytest.mark.parametrize(
    ("text", "packages", "engine"),
    [
        ("LLaMA-Factory", {}, "llama-factory"),
        ("trl 0.9.6", {}, "trl"),
        ("llamafactory", {"torch": "2.4.0"}, "torch"),
        ("xinference", {}, "xinference"),
        ("gpustack: 2.0", {}, "gpustack"),
        ("xinference", {"vllm": "0.8.0"}, "vllm"),
    ],
)
def test_what_starts_an_engine_is_the_workload_where_nothing_else_is(
    text: str, packages: dict[str, str], engine: str
) -> None:
    facts = read_field_report(
        {"engine": text, "packages": packages, "engine_args": {"bf16": "true"}}
    )
    assert [work.engine for work in facts.workloads] == [engine]
