"""The vllm-cpu profile as a service of a user, with the real vLLM: gigabytes and many minutes."""

from __future__ import annotations

from pathlib import Path

import pytest

from doctor.resources import resource
from tests.provision.sandbox import Sandbox, free_port

pytestmark = pytest.mark.heavy


def test_served_proven_and_taken_back(tmp_path: Path) -> None:
    pytest.importorskip("ansible_runner")
    text = resource("profiles", "vllm-cpu.yaml").read_text()
    profile = tmp_path / "vllm.yaml"
    text = text.replace("port: 8000", f"port: {free_port()}")
    profile.write_text(text.replace("start_s: 900", "start_s: 3600"))
    box = Sandbox(tmp_path, tmp_path)
    try:
        applied = box.run("apply", profile, "--yes", "--format", "json")
        assert applied.status == 0, applied.err
        assert "smoke" in applied.json["proof"]
        assert "nothing to do" in box.run("apply", profile, "--yes").out
        assert box.run("drift", profile).status == 0
        assert box.run("rollback", profile).status == 0
        assert not box.processes(f"DOCTOR_SERVICE={tmp_path}/.local/share/doctor/vllm-cpu")
    finally:
        box.run("rollback", profile)
