"""An image that is carried in a folder: to a machine that reaches no registry, by its digest."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from doctor.profile.image_file import image_path, read_image_file
from doctor.profile.lock import Lock, read_lock
from doctor.provision.playbook import Playbook
from doctor.provision.target import DOCKER, Target
from tests.provision.engine_image import registry
from tests.provision.machine import call, docker_engine, machine, systemd_image
from tests.provision.sandbox import Sandbox, free_port

pytestmark = [pytest.mark.slow, pytest.mark.docker]

PROFILE = """\
schema: doctor/profile/v1
name: carried
engine: {{name: xllamacpp}}
accelerator: {{vendor: cpu}}
install: {{method: container, image: '{image}', network: host}}
model: {{source: embedded, format: gguf}}
serving: {{port: {port}, args: {{max_model_len: 512, threads: 1}}}}
service: {{start_s: 60, stop_s: 5, open_files: 4096}}
smoke: {{timeout_s: 60}}
"""


@pytest.fixture
def carried(box: Sandbox, wheels: Path, tmp_path: Path) -> Iterator[Lock]:
    """A profile, its lock and a folder with the image; the registry is gone by now."""
    with docker_engine(), ExitStack() as stack:
        systemd_image(tmp_path)
        (tmp_path / "registry").mkdir()
        with registry(tmp_path / "registry") as images:
            name = images.publish(wheels, "1", "first")
            text = PROFILE.format(image=name, port=free_port())
            (box.home / "carried.yaml").write_text(text)
            words = ("profile", "lock", "carried.yaml", "--download", "parts")
            locked = box.run_on((), *words)
            assert locked.status == 0, locked.err
            assert "1 files in parts" in locked.out
        lock = read_lock(box.home / "stack.lock")
        found = read_image_file(image_path(lock.image, box.home / "parts"), lock.image, deep=True)
        assert found.id == lock.image_id
        stack.callback(subprocess.run, ["docker", "rmi", "-f", found.id], capture_output=True)
        yield lock


def test_applied_from_the_folder_and_refused_when_it_is_another(
    carried: Lock, box: Sandbox
) -> None:
    asked = ("apply", "carried.yaml", "--yes")
    path = image_path(carried.image, box.home / "parts")
    good = path.read_bytes()
    try:
        nothing = box.run("apply", "carried.yaml", "--offline", ".")
        assert "doctor profile lock --download" in nothing.out + nothing.err
        path.write_bytes(good[:-3000] + bytes(100) + good[-2900:])
        refused = box.run(*asked, "--offline", "parts")
        assert refused.status != 0
        assert "it is not used" in refused.out + refused.err
        path.write_bytes(good)

        applied = box.run(*asked, "--offline", "parts")
        assert applied.status == 0, applied.out + applied.err
        name = call("docker", "ps", "--format", "{{.Names}}", "--filter", "name=carried").strip()
        runs = json.loads(call("docker", "inspect", name))[0]
        assert (runs["Config"]["Image"], runs["Image"]) == (carried.image_id, carried.image_id)
        assert "nothing to do" in box.run("apply", "carried.yaml", "--offline", "parts").out
        assert "nothing to do" in box.run("apply", "carried.yaml").out, "the folder was left behind"
        assert box.run("drift", "carried.yaml").status == 0
    finally:
        box.run("rollback", "carried.yaml")


def test_carried_to_another_machine(carried: Lock, box: Sandbox, tmp_path: Path) -> None:
    client = shutil.which("docker") or "docker"
    socket = "/var/run/docker.sock"
    (tmp_path / "machine").mkdir()
    options = ("-v", f"{socket}:{socket}", "-v", f"{client}:/usr/bin/docker:ro")
    with machine(tmp_path / "machine", *options) as there:
        values = {
            "engine_container_path": "/srv/releases/one",
            "engine_container_python": "/usr/bin/python3",
            "engine_container_client": ["/usr/bin/docker"],
            "engine_container_image": carried.image_id,
            "engine_container_archive": str(image_path(carried.image, box.home / "parts")),
            "engine_container_copy": True,
        }
        book = Playbook(Target(DOCKER, there.name), tmp_path / "runner")
        first = book.play("first", "engine_container", values)
        assert not first.failure, first.failure
        assert first.changed
        assert call("docker", "inspect", "-f", "{{.Id}}", carried.image_id)
        assert there.run("ls", "/srv/releases").split() == ["one"]
        again = book.play("again", "engine_container", values)
        assert (again.failure, again.changed) == ("", 0)
