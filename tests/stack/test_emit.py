"""Stacks as input of other tools."""

from __future__ import annotations

import re
import sys

import pytest
from packaging.requirements import Requirement

from doctor.errors import NoneFoundError
from doctor.profile.read import parse_profile
from doctor.report.emit import dockerfile, profile, pyproject, requirements
from doctor.stack.model import Resolution
from tests.stack.asking import ask_for

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

BOX = "python=3.12,ubuntu=22.04,arch=x86_64,glibc=2.35"
ENGINE = "container=docker"
WHEELS = {
    "default build": (f"H100,driver=580.95.05,{BOX}", "vllm"),
    "build by file": (f"H100,driver=550.54.15,{BOX}", "vllm"),
    "half precision": (f"T4,driver=575.57.08,{BOX}", "vllm"),
    "no card": (f"cpu,{BOX}", "vllm"),
    "sglang": (f"L40Sx2,driver=580.95.05,{BOX}", "sglang"),
    "tensorrt-llm": (f"H100,driver=580.95.05,{BOX}", "tensorrt-llm"),
    "lmdeploy": (f"H100,driver=580.95.05,{BOX}", "lmdeploy"),
    "onnxruntime": (f"H100,driver=580.95.05,{BOX}", "onnxruntime"),
    "torch": (f"V100,driver=580.95.05,{BOX}", "torch"),
    "xllamacpp": (f"cpu,{BOX}", "xllamacpp"),
}
IMAGE = (f"H100,driver=580.95.05,{ENGINE},{BOX}", "vllm")


def offered(name: str) -> Resolution:
    line, engine = WHEELS[name]
    return ask_for(line, {"engine": engine})


def image() -> Resolution:
    line, engine = IMAGE
    return ask_for(line, {"engine": engine, "artifact": "image"})


@pytest.mark.parametrize("name", WHEELS)
def test_requirements_are_pins_and_addresses(name: str) -> None:
    lines = requirements(offered(name)).splitlines()
    options = [line for line in lines if line.startswith("--")]
    assert all(re.fullmatch(r"--extra-index-url https://\S+", line) for line in options)
    pins = [Requirement(line) for line in lines if not line.startswith(("#", "--"))]
    assert pins
    for pin in pins:
        assert pin.url or str(pin.specifier), f"{pin} is open"


@pytest.mark.parametrize("name", WHEELS)
def test_a_project_for_uv_reads_as_one(name: str) -> None:
    found = tomllib.loads(pyproject(offered(name)))
    names = [Requirement(text).name for text in found["project"]["dependencies"]]
    assert len(names) == len(set(names))
    assert found["project"]["requires-python"] == ">=3.12,<3.13"
    indexes = {row.get("name") for row in found["tool"]["uv"].get("index", ())}
    for source in found["tool"]["uv"].get("sources", {}).values():
        assert source["index"] in indexes


@pytest.mark.parametrize("name", WHEELS)
def test_a_profile_is_one_that_doctor_reads(name: str) -> None:
    text = profile(offered(name))
    read = parse_profile(text, "emitted")
    best = offered(name).offers[0].stack
    assert best is not None
    assert read.engine.name == best.engine
    assert read.install.method == "venv"


def test_a_profile_of_an_image() -> None:
    read = parse_profile(profile(image()), "emitted")
    assert read.install.method == "container"
    assert read.install.image.startswith("vllm/vllm-openai:v")


@pytest.mark.parametrize("name", WHEELS)
def test_a_dockerfile_has_one_base_and_no_root(name: str) -> None:
    lines = dockerfile(offered(name)).splitlines()
    words = [line.split(" ", 1)[0] for line in lines if line and not line.startswith("#")]
    assert words.count("FROM") == 1
    assert set(words) <= {"FROM", "RUN", "ENV", "USER"}
    assert "USER engine" in lines


def test_a_dockerfile_of_an_image_is_that_image() -> None:
    assert re.search(r"^FROM vllm/vllm-openai:v[\d.]+", dockerfile(image()), re.MULTILINE)


def test_what_the_engine_must_be_told_is_in_it() -> None:
    found = offered("half precision")
    assert "--dtype float16" in requirements(found)
    assert parse_profile(profile(found), "emitted").serving.args["dtype"] == "float16"


def test_an_image_is_no_requirement() -> None:
    with pytest.raises(NoneFoundError, match="no wheel or source of vllm is offered"):
        requirements(image())


def test_no_stack_is_nothing_to_write() -> None:
    found = ask_for(f"V100,driver=580.95.05,{BOX}", {"engine": "vllm", "spec": "==0.30.0"})
    for write in (requirements, pyproject, dockerfile, profile):
        with pytest.raises(NoneFoundError, match="offered"):
            write(found)
