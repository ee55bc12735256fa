"""What the package index does not have under an engine's name is not installed from there."""

from __future__ import annotations

import re

import pytest

from doctor.diagnose import diagnose
from doctor.intake.field_report import read_field_report
from doctor.matrix import load_matrix

MATRIX = load_matrix()
# Each with a release that is older than the model: a server, an image, a program of its own.
OLD = {"ollama": ("0.5.7", "gemma3:12b"), "tgi": ("1.4.0", "google/gemma-7b-it")}
PYTHON = {"vllm": ("0.8.4", "Qwen/Qwen3-Next-80B-A3B-Instruct")}
INSTALL = re.compile(r"pip install '?(ollama|tgi|llama\.cpp|vllm)\b")


def commands(engine: str) -> list[str]:
    version, model = {**OLD, **PYTHON}[engine]
    packages = {engine: version}
    report = {"engine": engine, "packages": packages, "engine_args": {"model": model}}
    (target,) = diagnose(read_field_report(report), MATRIX).targets
    found = [f for f in target.findings if f.code == "ENG401"]
    assert found, target.findings
    return [c for f in found for r in f.remedies for c in r.commands]


@pytest.mark.parametrize("engine", sorted(OLD))
def test_a_server_is_not_installed_by_the_name_of_its_client(engine: str) -> None:
    assert not any(map(INSTALL.search, commands(engine)))


@pytest.mark.parametrize("engine", sorted(PYTHON))
def test_a_distribution_is(engine: str) -> None:
    assert any(map(INSTALL.search, commands(engine)))
