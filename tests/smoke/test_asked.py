"""From command lines and profiles to what is to be proven."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from doctor.errors import UsageError
from doctor.facts import Version
from doctor.matrix import Matrix, load_matrix
from doctor.profile.read import builtin_names, find_profile
from doctor.profile.schema import Model, Smoke
from doctor.smoke.ask import Ask
from doctor.smoke.asked import Options, read_ask
from doctor.smoke.launch import LaunchError
from doctor.smoke.prepare import choose_model, prepare
from doctor.smoke.profiled import ask_of
from doctor.smoke.records import read_record, write_record
from doctor.smoke.target import Record, server_url
from doctor.smoke.values import value_of
from tests.smoke.environments import environment


@pytest.fixture(scope="module")
def matrix() -> Matrix:
    return load_matrix()


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2", 2),
        ("0.5", 0.5),
        ("true", True),
        ("False", False),
        ("[0, 1]", [0, 1]),
        ("on", "on"),
        ("fp8", "fp8"),
        ('{"a": 1}', '{"a": 1}'),
        ("NaN", "NaN"),
        ("1e999", "1e999"),
        ("null", "null"),
    ],
)
def test_values(text: str, value: Any) -> None:
    found = value_of(text)
    assert (found, type(found)) == (value, type(value))


@given(st.text())
def test_any_text_is_a_value(text: str) -> None:
    value_of(text)


def test_options_are_understood() -> None:
    ask = read_ask(Options(engine="VLLM==0.20.0", args=("--tp=2", "kv_dtype=fp8")))
    assert (ask.engine, ask.version) == ("vllm", Version("0.20.0"))
    assert ask.args == {"tensor_parallel_size": 2, "kv_cache_dtype": "fp8"}


def test_a_profile_is_understood_and_options_win() -> None:
    ask = read_ask(Options(profile="llamacpp-cpu", timeout_s=5.0, args=("threads=3",)))
    assert (ask.engine, ask.timeout_s, ask.args) == ("xllamacpp", 5.0, {"threads": 3})


def test_a_profile_says_which_model_is_asked_for_what() -> None:
    model = Model(source="path", id="/srv/m.gguf", format="gguf")
    plain = msgspec.structs.replace(find_profile("llamacpp-cpu"), model=model)
    own = msgspec.structs.replace(plain, smoke=Smoke(known_answer=False))
    assert (ask_of(plain).model, ask_of(own).model) == ("", "/srv/m.gguf")
    assert "max_model_len" in ask_of(own).args
    assert (plain.has_known_answer, own.has_known_answer) == (None, False)
    assert find_profile("llamacpp-cpu").has_known_answer


@pytest.mark.parametrize("name", builtin_names())
def test_every_profile_is_a_smoke_test_or_says_why_not(name: str) -> None:
    profile = find_profile(name)
    if profile.install.method == "container":
        with pytest.raises(UsageError, match="container"):
            ask_of(profile)
        return
    ask = ask_of(profile)
    assert ask.engine == profile.engine.name
    # Its own model's length would not fit the known-answer model.
    assert "max_model_len" not in ask.args


def test_installed_version_must_satisfy_the_profile(matrix: Matrix) -> None:
    pytest.importorskip("xllamacpp")
    ask = Ask(engine="xllamacpp", versions=">=9999")
    with pytest.raises(LaunchError, match="not >=9999"):
        prepare(ask, matrix)


@pytest.mark.real
def test_model_is_split_in_two_at_most(matrix: Matrix, tmp_path: Path) -> None:
    environment(tmp_path / "env", {"vllm": "0.19.1"}, {})
    ask = Ask(engine="vllm", python=str(tmp_path / "env"), args={"tensor_parallel_size": 8})
    prepared = prepare(ask, matrix)
    assert "--tensor-parallel-size 2" in " ".join(prepared.plan.argv)
    assert "not in 8" in prepared.plan.notes[0]
    own = prepare(replace(ask, model="org/model"), matrix)
    assert "--tensor-parallel-size 8" in " ".join(own.plan.argv)
    assert "HF_HUB_OFFLINE" not in own.plan.env


def test_models(matrix: Matrix, tmp_path: Path) -> None:
    llama, vllm = matrix.launch("llama.cpp"), matrix.launch("vllm")
    assert llama is not None
    assert vllm is not None
    assert choose_model("", llama).path.endswith("known-answer-f16.gguf")
    assert choose_model("known-answer-q4_0", llama).form == "q4_0"
    assert choose_model("", vllm).path.endswith("known-answer-hf")
    with pytest.raises(UsageError, match="GGUF"):
        choose_model("known-answer-q4_0", vllm)
    own = choose_model(str(tmp_path), vllm)
    assert own.is_here
    assert not own.is_known
    assert not choose_model("org/name", vllm).is_here


def test_records(tmp_path: Path) -> None:
    path = tmp_path / "figures.json"
    record = Record("m", -1.25, None, "text")
    write_record(str(path), record)
    assert read_record(str(path)) == record
    write_record(str(path), replace(record, text=-2.0))
    assert read_record(str(path)).text == -2.0
    for bad in ("", "{}", "[]", '{"schema": "doctor/smoke-record/v1", "own": true}', "\0" * 70000):
        path.write_text(bad)
        with pytest.raises(UsageError):
            read_record(str(path))
    with pytest.raises(UsageError):
        write_record("/nowhere/figures.json", record)


@pytest.mark.parametrize(
    "url",
    ["http://[::1", "http://", "ftp://x", "127.0.0.1:8000", "http://h:99999", "http://h:x",
     "http://user:word@h"],
)  # fmt: skip
def test_what_is_no_server_is_asked_of_nobody(url: str) -> None:
    with pytest.raises(UsageError):
        server_url(url)


@given(st.text())
def test_any_text_is_a_server_or_is_refused(text: str) -> None:
    with contextlib.suppress(UsageError):
        assert server_url(f"http://{text}") == f"http://{text}"
