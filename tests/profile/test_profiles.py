"""Profiles: what is refused, with its place; and the ones that ship."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from doctor.errors import UsageError
from doctor.matrix import load_matrix
from doctor.profile.describe import doubts
from doctor.profile.json_schema import PLACE, schema_text
from doctor.profile.read import builtin_names, find_profile, parse_profile
from doctor.profile.schema import Profile
from doctor.report.profile import render_json, render_yaml

GOOD = """\
schema: doctor/profile/v1
name: mine
engine: {name: vllm, version: '>=0.20,<0.34'}
accelerator: {vendor: nvidia, min_capability: '7.5'}
install: {method: venv, python: '3.10', requirements: [vllm]}
serving: {port: 8000, args: {max_model_len: 8192}}
"""
WANTED = {
    "llamacpp-cpu",
    "llamacpp-cuda",
    "vllm-nvidia",
    "vllm-nvidia-container",
    "sglang-nvidia",
    "tensorrt-llm-nvidia",
    "tgi-nvidia",
    "vllm-ascend",
    "mindie-ascend",
    "vllm-cpu",
    "vllm-rocm",
    "onnxruntime-cuda",
    "mlx",
    "nvidia-driver",
    "ascend-driver",
}


def test_all_wanted_profiles_ship() -> None:
    assert set(builtin_names()) == WANTED


@pytest.mark.parametrize("name", sorted(WANTED))
def test_a_shipped_profile_agrees_with_the_matrix(name: str) -> None:
    profile = find_profile(name)
    assert profile.name == name
    assert doubts(profile, load_matrix()) == ()


@pytest.mark.parametrize("name", sorted(WANTED))
def test_a_profile_is_read_back_as_it_is_shown(name: str) -> None:
    profile = find_profile(name)
    assert parse_profile(render_yaml(profile), name) == profile
    assert parse_profile(render_json(profile), name) == profile


def test_versions_stay_texts() -> None:
    assert parse_profile(GOOD.replace("'3.10'", "3.10"), "p").install.python == "3.10"


def refusal(text: str) -> str:
    with pytest.raises(UsageError) as fault:
        parse_profile(text, "p.yaml")
    assert fault.value.hint
    return str(fault.value)


def with_line(line: str) -> str:
    return f"{GOOD}{line}\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (with_line("colour: red"), "p.yaml:7: Object contains unknown field `colour`"),
        (with_line("name: other"), "p.yaml:7: duplicate key 'name'"),
        (with_line("hold: {driver: true, driver: false}"), "p.yaml:7: duplicate key 'driver'"),
        (with_line("hold: &h {driver: true}\ndriver: *h"), "p.yaml:8: aliases"),
        (GOOD.replace("8000", "80000"), "p.yaml:6: serving.port"),
        (GOOD.replace("doctor/profile/v1", "doctor/profile/v9"), "p.yaml:1: schema"),
        (GOOD.replace("nvidia", "voodoo"), "p.yaml:4: accelerator.vendor"),
        (GOOD.replace("method: venv", "method: container"), "install.image is missing"),
        (with_line("model: {source: path, id: /srv/../etc}"), "must not climb"),
        (with_line("model: {source: hub}"), "model.id is missing"),
        (with_line("driver: {policy: install}"), "driver.branch is missing"),
        ("[]", "not a table"),
        ("a: [", "p.yaml: "),
        ("? [a]\n: b\n", "a key that is no text"),
        ("", "not a table"),
    ],
)
def test_a_fault_is_named_with_its_place(text: str, said: str) -> None:
    assert said in refusal(text)


HOSTILE = [
    "vllm; rm -rf /",
    "vllm\nrm",
    "vllm && true",
    "{{ lookup('pipe', 'touch canary') }}",
    "$(touch canary)",
    "`touch canary`",
    "vllm @ file:///etc/passwd",
    "--index-url=https://example.org",
    "../../etc/passwd",
    "\u202ellvm",
    "vllm\n",
    "a" * 10_000,
]


@pytest.mark.parametrize("value", HOSTILE)
@pytest.mark.parametrize(
    "place",
    [
        ("name",),
        ("engine", "name"),
        ("engine", "version"),
        ("install", "python"),
        ("install", "image"),
        ("install", "index"),
        ("serving", "host"),
        ("serving", "api_key"),
        ("service", "account"),
        ("model", "sha256"),
    ],
)
def test_hostile_values_are_refused(place: tuple[str, ...], value: str) -> None:
    if place == ("install", "image"):
        value = value.replace("vllm;", "vllm ;")
    data = yaml.safe_load(GOOD)
    table = data
    for key in place[:-1]:
        table = table.setdefault(key, {})
    table[place[-1]] = value
    refusal(json.dumps(data))


@pytest.mark.parametrize("value", HOSTILE)
def test_hostile_requirements_are_refused(value: str) -> None:
    data = yaml.safe_load(GOOD)
    data["install"]["requirements"] = [value]
    refusal(json.dumps(data))


def test_arguments_are_data_and_hold_no_control_characters() -> None:
    data = yaml.safe_load(GOOD)
    data["serving"]["args"] = {"chat_template": "{{ messages }}", "served_model_name": "a b"}
    kept = parse_profile(json.dumps(data), "p").serving.args
    assert kept == {"chat_template": "{{ messages }}", "served_model_name": "a b"}
    data["serving"]["args"] = {"served_model_name": "a\x1b[2J"}
    refusal(json.dumps(data))


def test_secrets_are_references() -> None:
    data = yaml.safe_load(GOOD)
    data["serving"]["api_key"] = "file:/run/credentials/key"
    assert parse_profile(json.dumps(data), "p").serving.api_key
    data["serving"]["env"] = {"HF_TOKEN": "hf_abc"}
    assert "looks like a secret" in refusal(json.dumps(data))


def test_a_profile_of_ten_megabytes_is_refused_at_once(tmp_path: Path) -> None:
    path = tmp_path / "big.yaml"
    path.write_text("a" * (10 << 20))
    with pytest.raises(UsageError, match="larger than"):
        find_profile(str(path))
    with pytest.raises(UsageError, match="cannot read"):
        find_profile(str(tmp_path))


def test_an_unknown_profile_names_the_nearest() -> None:
    with pytest.raises(UsageError) as fault:
        find_profile("vllm-nvidea")
    assert "vllm-nvidia" in fault.value.hint


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=300))
def test_no_text_raises_anything_but_a_usage_error(text: str) -> None:
    with contextlib.suppress(UsageError):
        parse_profile(text, "p")


def test_the_schema_file_is_the_schema_of_the_structs() -> None:
    assert PLACE.read_text(encoding="utf-8") == schema_text()


@pytest.mark.parametrize("name", sorted(WANTED))
def test_shipped_profiles_satisfy_the_schema_file(name: str) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    document = json.loads(render_json(find_profile(name)))
    jsonschema.Draft202012Validator(json.loads(schema_text())).validate(document)


def test_doubts_name_what_the_matrix_speaks_against() -> None:
    def doubt(text: str) -> str:
        return " ".join(doubts(parse_profile(text, "p"), load_matrix()))

    assert "no release" in doubt(GOOD.replace(">=0.20,<0.34", ">=99"))
    assert "Python 3.8" in doubt(GOOD.replace("'3.10'", "'3.8'"))
    assert "begin at 7.5" in doubt(GOOD.replace("min_capability: '7.5'", "min_capability: '6.0'"))
    assert "nothing is known" in doubt(GOOD.replace("name: vllm", "name: voodoo"))
    assert isinstance(parse_profile(GOOD, "p"), Profile)


@pytest.mark.parametrize(
    ("line", "near"), [("servin: {port: 1}", "serving"), ("serving: {prot: 1}", "port")]
)
def test_a_misspelt_key_is_told_the_nearest(line: str, near: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_profile(f"schema: doctor/profile/v1\nname: mine\n{line}\n", "p.yaml")
    assert f"did you mean {near}?" in caught.value.hint
