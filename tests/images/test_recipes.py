"""Recipes: what every Containerfile must say, pins, labels, and the folder a builder is given."""

from __future__ import annotations

import ast
import json
import re
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from doctor.errors import UsageError
from doctor.images.building import Wish, build
from doctor.images.context import write_context
from doctor.images.labels import OWN, REQUIRED, labels_of
from doctor.images.pins import Pins, pinned_base, read_pins
from doctor.images.recipe import Recipe, pip_requirement, read_recipe, recipe_names
from doctor.matrix import load_matrix
from doctor.profile.lock import requirements_text
from doctor.resources import resource
from doctor.smoke.launch import launch_row

DIGEST = "sha256:" + "ab" * 32
WANTED = {
    "llamacpp-cpu", "vllm-cpu", "vllm", "sglang", "tensorrt-llm", "tgi", "llamacpp-cuda",
    "vllm-ascend",
}  # fmt: skip
TOOLS = re.compile(r"\b(?:gcc|g\+\+|make|cmake|build-essential|apt-get|curl -|wget|nvcc)\b")


def instructions(recipe: Recipe) -> list[tuple[str, str]]:
    """Instructions of the Containerfile, continued lines joined, comments left out."""
    lines = [x for x in recipe.containerfile.splitlines() if not x.lstrip().startswith("#")]
    joined = "\n".join(lines).replace("\\\n", " ")
    rows = (line.strip().partition(" ") for line in joined.splitlines() if line.strip())
    return [(word, rest.strip()) for word, _, rest in rows]


def last_stage(recipe: Recipe) -> dict[str, list[str]]:
    """Arguments of the instructions of the last stage by their word."""
    found: dict[str, list[str]] = {}
    for word, rest in instructions(recipe):
        if word == "FROM":
            found = {}
        found.setdefault(word, []).append(rest)
    return found


def test_every_engine_has_a_recipe() -> None:
    assert set(recipe_names()) == WANTED


@pytest.mark.parametrize("name", sorted(WANTED))
def test_the_last_stage(name: str) -> None:
    recipe = read_recipe(name)
    stage = last_stage(recipe)
    assert stage["USER"][-1] not in ("0", "root", "0:0")
    assert len(stage["HEALTHCHECK"]) == 1
    assert isinstance(json.loads(stage["ENTRYPOINT"][0]), list)
    assert "CMD" not in stage, "arguments are the engine's own"
    assert stage["EXPOSE"] == [str(recipe.spec.port)]
    assert not any(TOOLS.search(line) for line in stage.get("RUN", []))
    row = launch_row(recipe.spec.engine, None, load_matrix())
    assert stage["STOPSIGNAL"] == [row.stop_signal]
    if recipe.spec.content == "wheels":
        assert {f"{name}={value}" for name, value in row.env.items()} <= set(
            stage["ENV"][0].split()
        )


@pytest.mark.parametrize("name", sorted(WANTED))
def test_bases_are_arguments_and_nothing_is_fetched(name: str) -> None:
    for word, rest in instructions(read_recipe(name)):
        if word == "FROM":
            assert rest.split()[0] == "${BASE}"
        assert word not in ("ADD", "ONBUILD")
        if word == "RUN":
            assert "http" not in rest
            assert "pip" not in rest or ("--no-index" in rest and "--require-hashes" in rest)


@pytest.mark.parametrize("name", sorted(WANTED))
def test_what_is_not_pinned_is_not_built(name: str) -> None:
    with pytest.raises(UsageError) as fault:
        build(Wish(name), load_matrix(), print)
    assert f"doctor image pin {name}" in fault.value.hint


def test_wheels_are_held_to_hashes() -> None:
    for name in WANTED:
        recipe = read_recipe(name)
        assert recipe.spec.content == "wheels" or recipe.lock is None
        assert bool(recipe.spec.python) is (recipe.spec.content == "wheels")
        assert not recipe.spec.built_here or recipe.lock
        if recipe.lock:
            assert (recipe.lock.python, recipe.lock.platform) == (
                recipe.spec.python, recipe.spec.platform,
            )  # fmt: skip
            text = requirements_text(recipe.lock)
            assert text.count("==") == len(recipe.lock.packages) > 0
            assert "--hash=sha256:" in text
    assert re.fullmatch(r"pip==[\d.]+ --hash=sha256:[0-9a-f]{64}\n", pip_requirement())


# Options that an entry point may give although a profile gives them as well: the last one counts.
TWICE = {
    "llamacpp-cpu": {"--host"}, "llamacpp-cuda": {"--host"}, "sglang": {"--host"},
    "tensorrt-llm": {"--host"}, "vllm-cpu": {"--enforce-eager"},
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(WANTED))
def test_the_entry_point_leaves_the_arguments_to_the_engine(name: str) -> None:
    words = json.loads(last_stage(read_recipe(name))["ENTRYPOINT"][0])
    assert {word for word in words if word.startswith("--")} == TWICE.get(name, set())


@pytest.mark.real
@pytest.mark.parametrize(("words", "port"), [
    ("/app/llama-server --host 0.0.0.0", "8080"),
    ("/app/llama-server --port 9001 --host ::", "9001"),
    ("/app/llama-server --port=9002", "9002"),
    ("/app/llama-server --port 1 --port 9003 --alias --port", "9003"),
])  # fmt: skip
def test_the_health_check_of_an_image_without_python(words: str, port: str, tmp_path: Path) -> None:
    (tmp_path / "cmdline").write_text(words.replace(" ", "\0") + "\0")
    (tmp_path / "curl").write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/asked\n')
    (tmp_path / "curl").chmod(0o755)
    script = read_recipe("llamacpp-cuda").programs["llama-health.sh"].decode()
    env = {"PATH": f"{tmp_path}:/usr/bin:/bin", "DOCTOR_PORT": "8080"}
    env["DOCTOR_CMDLINE"] = str(tmp_path / "cmdline")
    subprocess.run(["/bin/sh", "-c", script], env=env, check=True)
    assert f"http://127.0.0.1:{port}/health" in (tmp_path / "asked").read_text()


def test_the_health_check_is_plain_python() -> None:
    tree = ast.parse(resource("images", "common", "health.py").read_text())
    modules = {n.names[0].name for n in ast.walk(tree) if isinstance(n, ast.Import)}
    assert modules <= {"http.client", "os", "re", "sys"}


@pytest.mark.parametrize(
    "base", ["python:3.12", "python@sha256:12", "x; rm -rf /@sha256:" + "a" * 64]
)
def test_a_base_without_a_digest_is_refused(base: str) -> None:
    with pytest.raises(UsageError, match="names no digest"):
        pinned_base(read_recipe("vllm"), base, "")


def test_pins_by_architecture(tmp_path: Path) -> None:
    lock = tmp_path / "images.lock"
    reference = read_recipe("vllm").spec.base
    lock.write_text(yaml.safe_dump({"images": {f"{reference} linux/aarch64": DIGEST}}))
    found = pinned_base(read_recipe("vllm"), "", str(lock), "aarch64")
    assert found == f"docker.io/vllm/vllm-openai@{DIGEST}"
    with pytest.raises(UsageError, match="is not pinned"):
        pinned_base(read_recipe("vllm"), "", str(lock), "x86_64")


@pytest.mark.parametrize("text", ["images: {a: b}", "[1]", "schema: other/v1", "a: [", "images: 1"])
def test_broken_pins_give_one_clear_error(tmp_path: Path, text: str) -> None:
    (tmp_path / "images.lock").write_text(text)
    with pytest.raises(UsageError, match=r"images\.lock"):
        read_pins(str(tmp_path / "images.lock"))
    assert read_pins(str(tmp_path / "none.lock")) == Pins()


@pytest.mark.parametrize("name", sorted(WANTED))
def test_labels_say_what_the_matrix_knows(name: str) -> None:
    recipe = read_recipe(name)
    found = labels_of(recipe, f"x@{DIGEST}", load_matrix())
    assert all(found.get(label) for label in REQUIRED)
    has_cuda = name in ("vllm", "tgi", "tensorrt-llm", "sglang", "llamacpp-cuda")
    assert (f"{OWN}.driver-floor" in found) is has_cuda
    assert (f"{OWN}.lock" in found) is (recipe.lock is not None)
    if name == "vllm":
        assert found[f"{OWN}.cuda"].startswith("13.0")
        assert "sm_" in found[f"{OWN}.code-targets"]


def test_a_name_that_is_none_lists_those_that_are() -> None:
    with pytest.raises(UsageError) as fault:
        read_recipe("../common")
    assert "vllm-ascend" in fault.value.hint


def test_a_recipe_without_a_lock_says_how_to_make_one(tmp_path: Path) -> None:
    (tmp_path / "Containerfile").touch()
    recipe = replace(read_recipe("vllm-cpu"), folder=tmp_path)
    with pytest.raises(UsageError) as fault:
        write_context(recipe, tmp_path)
    assert "doctor profile lock vllm-cpu --python 3.11" in fault.value.hint


@pytest.mark.parametrize(("name", "words"), [("vllm-cpu", "is of xllamacpp"), ("vllm", "is of")])
def test_a_lock_of_another_engine_is_refused(name: str, words: str) -> None:
    own = str(resource("images", "llamacpp-cpu", "stack.lock"))
    with pytest.raises(UsageError, match=words):
        build(Wish(name, base=f"x@{DIGEST}", lock=own), load_matrix(), print)
