"""llamacpp-cpu built for real: run, asked, verified, pushed, pulled by digest, built again."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from doctor.smoke.known import gguf_file
from tests.images.built import PREFIX, doctor, health, serving
from tests.images.conftest import Load
from tests.images.written import Layer
from tests.provision.machine import call, install

pytestmark = [pytest.mark.slow, pytest.mark.docker]


@pytest.fixture(scope="module")
def built(pinned: str) -> Iterator[str]:
    """The image, built by the engine."""
    name = f"{PREFIX}/llamacpp-cpu:1"
    out = doctor("image", "build", "llamacpp-cpu", "--builder", "classic", "--base", pinned,
                 "--tag", name)  # fmt: skip
    assert f"org.opencontainers.image.base.digest={pinned.rpartition('@')[2]}" in out
    yield name
    call("docker", "rmi", "-f", name)
    call("docker", "image", "prune", "-f", "--filter", "label=io.llm-doctor.stage=build")


def test_a_known_answer_from_inside_and_a_clean_end(built: str) -> None:
    words = ("--model", "/model", "--alias", "known-answer", "--ctx-size", "2048", "--threads", "1")
    with serving(built, gguf_file("q8_0"), *words) as (name, port):
        assert "proven" in doctor("smoke", f"http://127.0.0.1:{port}")
        assert health(name) == "healthy"
        assert call("docker", "exec", name, "id", "-u").strip() == "10001"
        call("docker", "stop", "-t", "20", name)
        assert call("docker", "inspect", "-f", "{{.State.ExitCode}}", name).strip() == "0"


def test_verified_listed_and_judged(built: str, tmp_path: Path) -> None:
    parts = tmp_path / "parts.json"
    doctor("image", "sbom", built, "-o", str(parts))
    names = {row["name"] for row in json.loads(parts.read_text())["components"]}
    assert {"xllamacpp", "libgomp1", "libc6"} <= names
    assert not names & {"gcc", "g++", "make", "cmake", "pip"}
    found = json.loads(doctor("image", "verify", built, "--sbom", str(parts), "--json"))
    assert found["passed"], found["points"]
    looked_at = {point["name"] for point in found["points"] if point["passed"]}
    assert looked_at >= {"labels", "lock", "user", "secrets", "world-writable", "parts"}
    line = "L40Sx1,driver=580.95.05,ubuntu=24.04"
    words = ("check", "--image", built, "--host", line, "--format", "json")
    judged = json.loads(doctor(*words, status=3))["targets"][0]
    assert judged["subject"] == f"image:{built}"
    assert not [f for f in judged["findings"] if f["severity"] == "error"]


def test_pushed_and_pulled_by_digest(built: str, registry: str) -> None:
    image = doctor("image", "push", built, f"{registry}/llama:1").strip()
    assert image.startswith(f"{registry}/llama@sha256:")
    call("docker", "rmi", f"{registry}/llama:1")
    call("docker", "pull", "-q", image)
    try:
        doctor("image", "verify", image, "--digest", image.rpartition("@")[2])
    finally:
        call("docker", "rmi", image)


def test_a_tag_that_was_published_again_is_told(load: Load, registry: str, tmp_path: Path) -> None:
    name, lock = f"{registry}/moves:1", str(tmp_path / "images.lock")
    one, two = (load(Layer().file("version", n), f"moves:{n}") for n in ("1", "2"))
    for image, status in ((one, 0), (one, 0), (two, 1), (two, 0)):
        call("docker", "tag", image, name)
        call("docker", "push", "-q", name)
        call("docker", "rmi", name)
        out = doctor("image", "pin", name, "-o", lock, status=status)
        assert ("published again" in out) is (status == 1)


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A store of buildah's own for this test."""
    if shutil.which("buildah") is None:
        install("buildah", "runc")
    config = tmp_path / "storage.conf"
    config.write_text(
        f'[storage]\ndriver = "overlay"\ngraphroot = "{tmp_path}/root"\n'
        f'runroot = "{tmp_path}/run"\n'
    )
    monkeypatch.setenv("CONTAINERS_STORAGE_CONF", str(config))
    yield
    subprocess.run(["buildah", "rmi", "-af"], env=os.environ, capture_output=True, check=False)


def test_the_same_digest_twice_and_the_same_content_from_both_builders(
    built: str, pinned: str, registry: str, store: None
) -> None:
    command = ["image", "build", "llamacpp-cpu", "--builder", "buildah", "--base", pinned]
    name = f"{PREFIX}/again:1"
    first, second = (doctor(*command, "--tag", name).split()[1] for _ in range(2))
    assert first == second
    assert first.startswith("sha256:")
    image = doctor("image", "push", name, f"{registry}/again:1", "--builder", "buildah").strip()
    call("docker", "pull", "-q", image)
    try:
        assert call("docker", "inspect", "-f", "{{.Id}}", image).strip() == first
        hashes = {
            json.loads(doctor("image", "verify", ref, "--json"))["content_hash"]
            for ref in (built, image)
        }
        assert len(hashes) == 1
    finally:
        call("docker", "rmi", image)
