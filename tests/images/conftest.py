"""The Docker engine, and images in it that are gone afterwards."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.images.built import PREFIX as BUILT
from tests.images.built import doctor
from tests.images.written import Layer
from tests.provision.machine import IMAGE, call, docker_engine, install, systemd_image
from tests.provision.sandbox import free_port

PREFIX = "doctor-test-image"


@pytest.fixture(scope="session")
def engine() -> Iterator[None]:
    """An engine that answers for as long as tests need it."""
    with docker_engine():
        yield


Load = Callable[..., str]


@pytest.fixture
def load(engine: None) -> Iterator[Load]:
    """Put a layer into the engine as an image with a configuration; returns its name."""
    import docker

    client, made = docker.from_env(), list[str]()

    def loaded(layer: Layer, name: str, **config: Any) -> str:
        ref = f"{PREFIX}/{name}"
        changes = [f"ENV {key}={value}" for key, value in config.pop("env", {}).items()]
        changes += [f"{key.upper()} {value}" for key, value in config.items()]
        repository, _, tag = ref.partition(":")
        client.api.import_image_from_data(
            layer.tar(), repository=repository, tag=tag, changes=changes
        )
        made.append(ref)
        return ref

    try:
        yield loaded
    finally:
        for ref in made:
            client.images.remove(ref, force=True)
        client.close()


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Debian's registry on loopback; its address."""
    if shutil.which("docker-registry") is None:
        install("docker-registry")
    folder, address = tmp_path_factory.mktemp("registry"), f"127.0.0.1:{free_port()}"
    config = folder / "config.yml"
    config.write_text(
        f"version: 0.1\nlog: {{level: error}}\nhttp: {{addr: '{address}'}}\n"
        f"storage: {{filesystem: {{rootdirectory: {folder}/data}}}}\n"
    )
    with subprocess.Popen(
        ["docker-registry", "serve", str(config)],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    ) as served:  # fmt: skip
        yield address
        served.terminate()
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory, registry: str) -> Iterator[str]:
    """A Debian with Python, made by debootstrap, in the registry by tag; without host keys."""
    name, box = f"{registry}/base:bookworm", f"{BUILT}-base"
    with docker_engine():
        systemd_image(tmp_path_factory.mktemp("base"))
        call("docker", "create", "--name", box, IMAGE, "/nothing")
        try:
            command = (
                f"docker export {box} | tar --delete --wildcards 'etc/ssh/ssh_host_*'"
                " 'var/lib/apt/lists/*' 'var/cache/apt/*' 'usr/share/doc/*' 'usr/share/locale/*'"
                " 'usr/share/man/*' 'usr/share/zoneinfo/*'"
                f" | docker import - {name}"
            )
            subprocess.run(["bash", "-o", "pipefail", "-c", command], check=True,
                           capture_output=True)  # fmt: skip
        finally:
            call("docker", "rm", box)
        call("docker", "push", "-q", name)
        yield name
        call("docker", "rmi", "-f", name)


@pytest.fixture(scope="module")
def pinned(base: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The base by digest, as `doctor image pin` writes it."""
    lock = tmp_path_factory.mktemp("pins") / "images.lock"
    words = doctor("image", "pin", base, "-o", str(lock)).split()
    again = doctor("image", "pin", base, "-o", str(lock))
    assert words[1] in again
    assert "published again" not in again
    return f"{base.rpartition(':')[0]}@{words[1]}"
