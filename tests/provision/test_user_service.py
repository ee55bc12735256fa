"""A real engine as a service of a user without root and without systemd."""

from __future__ import annotations

import json
import os
import signal
import stat
import time
from pathlib import Path

import pytest

from tests.provision.sandbox import Sandbox

pytestmark = pytest.mark.slow

CANARY = "canary-7f3a"


def test_applied_proven_again_drifted_mended_taken_back(box: Sandbox) -> None:
    profile = box.profile()
    first = box.apply(profile, "--format", "json")
    assert first.status == 0, first.err
    assert first.json["end"] == "applied"
    assert "smoke" in first.json["proof"]
    assert not (box.home / ".ansible").exists()

    began = len(box.runs)
    again = box.apply(profile)
    assert (again.status, len(box.runs)) == (0, began), "Ansible was started for nothing"
    assert "nothing to do" in again.out
    assert again.cpu_s < 3

    assert box.run("drift", profile).status == 0
    _drifts_are_found(box, profile)
    mended = box.apply(profile)
    assert mended.status == 0, mended.err
    assert box.run("drift", profile).status == 0

    old = (box.service / "current").readlink()
    other = box.apply(box.profile(length=1024))
    assert other.status == 0, other.err
    started = time.monotonic()
    assert box.run("rollback", profile).status == 0
    assert time.monotonic() - started < 60
    assert (box.service / "current").readlink() == old
    assert box.run("drift", profile).status == 0
    assert not box.processes(f"DOCTOR_RUN={box.runs[-1].name}")


def _drifts_are_found(box: Sandbox, profile: Path) -> None:
    config = box.service / "service.json"
    config.chmod(0o600)
    (box.service / "current/lib/doctor/smoke/embedded.py").write_text("broken")
    for pid in box.processes(f"DOCTOR_SERVICE={box.service}"):
        os.kill(pid, signal.SIGKILL)
    answer = box.run("drift", profile, "--format", "json")
    assert answer.status == 1
    kinds = {row["kind"] for row in answer.json["differences"]}
    assert kinds == {"file", "release", "process", "watcher"}


def test_a_layer_that_fails_brings_back_what_was_there(box: Sandbox) -> None:
    good = box.profile()
    assert box.apply(good).status == 0
    garbage = box.home / "garbage.gguf"
    garbage.write_bytes(b"GGUF" + bytes(1000))
    bad = box.profile(model=f"{{source: path, id: {garbage}, format: gguf}}", start_s=3)
    answer = box.apply(bad, "--format", "json")
    assert answer.status == 4
    assert answer.json["end"] == "rolled-back", answer.out
    assert box.run("drift", good).status == 0
    assert "nothing to do" in box.apply(good).out


def test_what_a_profile_says_is_data_and_a_key_is_seen_by_nobody(box: Sandbox) -> None:
    touched = box.home / "touched"
    key = box.home / "key"
    key.write_text(f"{CANARY}\n")
    key.chmod(0o600)
    evil = f"$(touch {touched}) `touch {touched}` %n {{{{ lookup('pipe', 'touch {touched}') }}}}"
    more = f"  api_key: file:{key}\n  env: {{EVIL: {json.dumps(evil)}, PCT: '%h %% ; rm -rf x'}}"
    answer = box.apply(box.profile(more=more))
    assert answer.status == 0, answer.err
    assert not touched.exists()
    engine = box.processes(f"LLAMA_API_KEY={CANARY}")
    assert engine, "the engine has its key"
    environ = Path(f"/proc/{engine[0]}/environ").read_bytes().split(b"\0")
    assert f"EVIL={evil}".encode() in environ
    assert CANARY not in answer.out + answer.err
    for path in box.home.rglob("*"):
        if path != key and stat.S_ISREG(path.lstat().st_mode) and "venv" not in path.parts:
            assert CANARY.encode() not in path.read_bytes(), path
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and (entry / "cmdline").exists():
            assert CANARY.encode() not in (entry / "cmdline").read_bytes()


def test_refusals(box: Sandbox) -> None:
    profile = box.profile()
    nobody = box.run("apply", profile, "--lock", box.wheels / "stack.lock")
    assert nobody.status == 2
    assert "--yes" in nobody.err
    assert box.run("rollback", profile).status == 2
    assert box.run("drift", profile).status == 2
    assert box.apply(profile, "--resume").status == 2
    stale = box.home / "plan.json"
    stale.write_text('{"inputs": "other"}')
    assert box.apply(profile, "--plan", str(stale)).status == 4
    checked = box.apply(profile, "--check")
    assert checked.status == 0, checked.err
    assert "would change" in checked.err
    assert not box.service.exists()
    assert not box.runs
