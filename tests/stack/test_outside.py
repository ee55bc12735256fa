"""What the resolver proposes, against the index that pip is told to ask and against uv."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import lru_cache
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from doctor.matrix.index import Index
from doctor.matrix.update_release import best_wheel, by_version, normalised
from doctor.profile.index import index_environment, pip_settings
from doctor.report.emit import requirements
from doctor.stack.model import Stack
from doctor.updating import index_of
from tests.stack.asking import ask_for

pytestmark = pytest.mark.slow

BOX = "ubuntu=22.04,arch=x86_64,glibc=2.35"
PROPOSALS = [
    (f"H100x8,driver=580.95.05,python=3.12,{BOX}", "vllm"),
    (f"H100x8,driver=570.211.01,python=3.12,{BOX}", "vllm"),
    (f"A100,driver=535.309.01,python=3.11,{BOX}", "vllm"),
    (f"T4,driver=575.57.08,python=3.12,{BOX}", "vllm"),
    (f"L40Sx2,driver=580.95.05,python=3.12,{BOX}", "sglang"),
    (f"RTX 4090,driver=550.163.01,python=3.10,{BOX}", "sglang"),
    (f"H100,driver=580.95.05,python=3.12,{BOX}", "lmdeploy"),
    (f"H100,driver=580.95.05,python=3.12,{BOX}", "onnxruntime"),
    (f"RTX 5090,driver=580.95.05,python=3.13,{BOX}", "torch"),
    (f"cpu,python=3.12,{BOX}", "xllamacpp"),
]
IDS = [f"{engine} {line.split(',python')[0]}" for line, engine in PROPOSALS]


@lru_cache(maxsize=1)
def index() -> Index:
    return index_of(os.environ, pip_settings())


@lru_cache(maxsize=32)
def stated(package: str, version: str) -> tuple[dict[str, list[Requirement]], str]:
    """Requirements by name, and requires-python, that the real wheel states."""
    files = by_version(index().project(package), package)
    wheel = best_wheel(files[version])
    assert wheel is not None
    text = index().metadata(wheel).decode().partition("\n\n")[0]
    found: dict[str, list[Requirement]] = {}
    python = ""
    for line in text.splitlines():
        name, _, value = line.partition(": ")
        if name == "Requires-Dist":
            wanted = Requirement(value)
            found.setdefault(normalised(wanted.name), []).append(wanted)
        elif name == "Requires-Python":
            python = value
    return found, python


def proposal(number: int) -> tuple[Stack, list[Requirement]]:
    """The best stack and its pins, with the labels of builds left out: no index of pip has them."""
    line, engine = PROPOSALS[number]
    found = ask_for(line, {"engine": engine})
    pins = [
        Requirement(text)
        for text in requirements(found).splitlines()
        if not text.startswith(("#", "--"))
    ]
    stack = next(o.stack for o in found.offers if o.stack and o.stack.kind in ("wheel", "source"))
    for pin in pins:
        if pin.url:
            pin.url, pin.specifier = None, SpecifierSet(f"=={stack.version}")
        pin.specifier = SpecifierSet(str(pin.specifier).partition("+")[0])
    return stack, pins


@pytest.mark.parametrize("number", range(len(PROPOSALS)), ids=IDS)
def test_pins_are_what_the_wheel_asks_for(number: int) -> None:
    stack, pins = proposal(number)
    own = normalised(pins[0].name)
    asked, python = stated(own, stack.version)
    minor = ".".join(stack.python.split(".")[:2])
    assert f"{minor}.9" in SpecifierSet(python)
    environment = {"python_version": minor, "python_full_version": f"{minor}.9", "extra": ""}
    for pin in pins[1:]:
        version = Version(next(iter(pin.specifier)).version)
        for wanted in asked.get(normalised(pin.name), []):
            if wanted.marker is None or wanted.marker.evaluate({**environment}):
                assert wanted.specifier.contains(version, prereleases=True), f"{pin} for {wanted}"


@pytest.mark.parametrize("number", range(len(PROPOSALS)), ids=IDS)
def test_uv_finds_a_solution(number: int, tmp_path: Path) -> None:
    stack, pins = proposal(number)
    minor = ".".join(stack.python.split(".")[:2])
    place = ("--python-version", minor, "--python-platform", "x86_64-manylinux_2_35")
    command = [sys.executable, "-m", "uv", "pip", "compile", "-", *place, "--no-progress"]
    loose = ("--prerelease", "allow", "--no-header", "--no-annotate")
    answer = subprocess.run(
        [*command, *loose],
        input="\n".join(map(str, pins)),
        env={**os.environ, **index_environment(os.environ, pip_settings())},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert answer.returncode == 0, answer.stderr[-3000:]
    assert f"{normalised(pins[0].name)}=={stack.version}" in answer.stdout
