"""A real engine in a real container, by the digest that a real registry names.

The container engine is that of this machine. The service is a user's, kept running by a
process; the client of the container is what is watched.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import stat
import subprocess
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from doctor.provision.goal import digest_of
from doctor.smoke.known import gguf_file
from tests.profile.hub import StandInHub
from tests.provision.engine_image import Registry, registry
from tests.provision.machine import Machine, call, docker_engine, machine, systemd_image
from tests.provision.sandbox import Answer, Sandbox, free_port

pytestmark = [pytest.mark.slow, pytest.mark.docker]

CANARY = "canary-91d4"
PROFILE = """\
schema: doctor/profile/v1
name: boxed
engine: {{name: xllamacpp}}
accelerator: {{vendor: cpu}}
install: {{method: container, image: '{image}', network: host}}
model: {{source: hub, id: org/known-answer, format: gguf, files: ['*.gguf', '*.json']}}
serving:
  port: {port}
  name: known-answer
  args: {{max_model_len: {length}, threads: 1}}
  api_key: 'file:{key}'
service: {{start_s: 60, stop_s: 5, open_files: 4096}}
smoke: {{timeout_s: 60}}
"""


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    folder = tmp_path_factory.mktemp("registry")
    with docker_engine():
        systemd_image(folder)
        with registry(folder) as found:
            yield found


class Boxed:
    """A user whose engine runs in a container and whose model comes from a hub."""

    def __init__(self, box: Sandbox, image: str) -> None:
        self.box = box
        self.image = image
        self.port = free_port()
        self.key = box.home / "key"
        self.key.write_text(f"{CANARY}\n")
        self.key.chmod(0o600)
        self.profile = self.write(512)

    @property
    def service(self) -> Path:
        return self.box.service.with_name("boxed")

    def write(self, length: int) -> Path:
        path = self.box.home / f"boxed-{length}.yaml"
        text = PROFILE.format(image=self.image, port=self.port, length=length, key=self.key)
        path.write_text(text)
        return path

    @property
    def name(self) -> str:
        """The name of the container."""
        return f"doctor-boxed-{digest_of(str(self.service))[:8]}"

    def kill(self) -> None:
        """Kill watcher and client at once."""
        for pid in self.box.processes(f"DOCTOR_SERVICE={self.service}"):
            os.kill(pid, signal.SIGKILL)

    def end(self) -> None:
        """Leave nothing behind."""
        self.kill()
        subprocess.run(["docker", "rm", "-f", self.name], capture_output=True, check=False)

    def lock(self) -> Answer:
        return self.box.run_on((), "profile", "lock", self.profile)

    def apply(self, profile: Path | None = None) -> Answer:
        return self.box.run("apply", profile or self.profile, "--yes")

    def drift(self) -> dict[str, str]:
        """What drifted, by kind."""
        answer = self.box.run("drift", self.profile, "--format", "json")
        return {row["kind"]: row["text"] for row in answer.json["differences"]}

    def inspect(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(call("docker", "inspect", self.name))[0]
        return found


def is_there(kind: str, name: str) -> bool:
    command = ["docker", "inspect", "--type", kind, name]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


@pytest.fixture
def boxed(box: Sandbox, images: Registry, wheels: Path) -> Iterator[Boxed]:
    images.publish(wheels, "latest", "first")
    model = gguf_file()
    files = {"config.json": b"{}", model.name: model.read_bytes()}
    with StandInHub("org/known-answer", files, frozenset({model.name})) as hub:
        user = replace(box, extra={"HF_ENDPOINT": hub.site.url, "no_proxy": "127.0.0.1"})
        found = Boxed(user, f"{images.image}:latest")
        yield found
        found.end()


def test_locked_applied_drifted_mended_published_anew_taken_back(
    boxed: Boxed, images: Registry, wheels: Path
) -> None:
    refused = boxed.apply()
    assert refused.status == 2
    assert f"doctor profile lock {boxed.profile}" in refused.err

    locked = boxed.lock()
    assert locked.status == 0, locked.err
    first = boxed.apply()
    assert first.status == 0, first.err
    _runs_without_rights(boxed)
    _key_is_seen_by_nobody(boxed, first)
    again = boxed.apply()
    assert "nothing to do" in again.out, again.err
    assert boxed.drift() == {}

    call("docker", "update", "--memory", "2g", "--memory-swap", "2g", boxed.name)
    assert boxed.drift() == {"container": "memory is 2147483648, not 0"}
    mended = boxed.apply()
    assert mended.status == 0, mended.err
    before = boxed.inspect()["Config"]["Image"]

    images.publish(wheels, "latest", "second")
    assert boxed.drift() == {}, "a tag that moves changes nothing"
    assert "published anew" in boxed.lock().out
    _breakage_is_found(boxed)
    other = boxed.apply(boxed.write(1024))
    assert other.status == 0, other.err
    assert boxed.inspect()["Config"]["Image"] != before
    back = boxed.box.run("rollback", boxed.profile)
    assert back.status == 0, back.err
    assert boxed.inspect()["Config"]["Image"] == before
    assert boxed.drift() == {}


def _runs_without_rights(boxed: Boxed) -> None:
    found = boxed.inspect()
    host, config = found["HostConfig"], found["Config"]
    assert re.search(r"@sha256:[0-9a-f]{64}$", config["Image"])
    assert config["User"] not in ("", "0", "0:0", "root")
    assert host["ReadonlyRootfs"]
    assert host["CapDrop"] == ["ALL"]
    assert "no-new-privileges" in host["SecurityOpt"]
    mounts = {m["Destination"]: m["RW"] for m in found["Mounts"]}
    assert mounts == {"/model/" + next(boxed.service.glob("model/*")).name: False,
                      "/work": True, "/doctor/lib": False}  # fmt: skip
    status = Path(f"/proc/{found['State']['Pid']}/status").read_text()
    assert re.search(r"^CapEff:\t0+$", status, re.MULTILINE)
    assert re.search(r"^NoNewPrivs:\t1$", status, re.MULTILINE)
    assert not re.search(r"^Uid:\t0\t", status, re.MULTILINE)


def _key_is_seen_by_nobody(boxed: Boxed, answer: Answer) -> None:
    assert f"LLAMA_API_KEY={CANARY}" in boxed.inspect()["Config"]["Env"]
    assert CANARY not in answer.out + answer.err
    for path in boxed.box.home.rglob("*"):
        if path != boxed.key and stat.S_ISREG(path.lstat().st_mode):
            assert CANARY.encode() not in path.read_bytes(), path
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and (entry / "cmdline").exists():
            assert CANARY.encode() not in (entry / "cmdline").read_bytes()


def _breakage_is_found(boxed: Boxed) -> None:
    found = boxed.inspect()
    boxed.kill()
    assert is_there("container", found["Id"]), "a container outlives its client"
    assert boxed.drift().keys() == {"process", "watcher"}
    call("docker", "rm", "-f", boxed.name)
    assert boxed.drift()["container"] == "not there"
    call("docker", "rmi", "-f", found["Config"]["Image"])
    assert boxed.drift().keys() == {"image", "process", "watcher"}


SYSTEM_BASE = Path("/opt/doctor")
SOCKET = "/var/run/docker.sock"


@pytest.fixture
def debian(images: Registry, tmp_path: Path) -> Iterator[Machine]:
    """A Debian with systemd that reaches the container engine of this machine.

    Paths mean the same to both, so what the engine mounts is what the service wrote.
    """
    if SYSTEM_BASE.exists():
        pytest.skip(f"{SYSTEM_BASE} is in use on this machine")
    client = shutil.which("docker") or "docker"
    more = ("-v", f"{SYSTEM_BASE}:{SYSTEM_BASE}", "-v", f"{SOCKET}:{SOCKET}",
            "-v", f"{client}:/usr/bin/docker:ro")  # fmt: skip
    folder = tmp_path / "machine"
    folder.mkdir()
    try:
        with machine(folder, *more) as found:
            yield found
    finally:
        shutil.rmtree(SYSTEM_BASE, ignore_errors=True)


UNIT = "doctor-boxed.service"


def test_a_unit_of_systemd_runs_stops_and_tidies_up(boxed: Boxed, debian: Machine) -> None:
    profile = boxed.box.home / "system.yaml"
    profile.write_text(boxed.profile.read_text().replace(str(boxed.key), "/etc/engine.key"))
    debian.run("tee", "/etc/engine.key", text=CANARY)
    name = f"doctor-boxed-{digest_of(f'{SYSTEM_BASE}/boxed')[:8]}"
    assert boxed.box.run_on((), "profile", "lock", profile).status == 0
    applied = boxed.box.run_on(debian.by_docker, "apply", profile, "--yes")
    assert applied.status == 0, applied.out + applied.err
    assert "nothing to do" in boxed.box.run_on(debian.by_docker, "apply", profile).out

    debian.run("systemctl", "stop", UNIT)
    assert not is_there("container", name)
    assert debian.run("systemctl", "show", "-p", "Result", "--value", UNIT).strip() == "success"
    debian.run("systemctl", "start", UNIT)
    until = time.monotonic() + 60
    while not is_there("container", name) and time.monotonic() < until:
        time.sleep(0.1)
    debian.run("systemctl", "kill", "--signal=KILL", "--kill-who=main", UNIT)
    assert comes_up(boxed.box, debian, profile), "started again after its client was killed"
    debian.restart()
    assert comes_up(boxed.box, debian, profile), "started at boot"

    back = boxed.box.run_on(debian.by_docker, "rollback", profile)
    assert back.status == 0, back.err
    assert not is_there("container", name)


def comes_up(box: Sandbox, debian: Machine, profile: Path) -> bool:
    """Whether nothing drifts after a while."""
    until = time.monotonic() + 90
    while time.monotonic() < until:
        if box.run_on(debian.by_docker, "drift", profile).status == 0:
            return True
    return False
