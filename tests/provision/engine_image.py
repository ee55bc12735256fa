"""A registry on the loopback and a small image with a real engine in it, pushed there."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
import urllib.request
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.provision.machine import IMAGE, call, install
from tests.provision.sandbox import free_port

# What llama.cpp needs of the system beside the C library.
_OPENMP = Path("/usr/lib/x86_64-linux-gnu/libgomp.so.1")
_PACKAGES = "/usr/lib/python3/dist-packages/"
_CONFIG = """\
version: 0.1
storage: {{filesystem: {{rootdirectory: {folder}}}}}
http: {{addr: 127.0.0.1:{port}}}
"""


@dataclass(frozen=True)
class Registry:
    """Debian's docker-registry, as it is, on a port of the loopback."""

    host: str
    folder: Path

    @property
    def image(self) -> str:
        """The name of the engine's image there."""
        return f"{self.host}/doctor-test/engine"

    def publish(self, wheels: Path, tag: str, mark: str) -> str:
        """Make an image with the engine of a wheel, push it, forget it here. Its name."""
        name, site = f"doctor-test-build-{os.getpid()}", self.folder / f"site-{mark}"
        with zipfile.ZipFile(next(wheels.glob("xllamacpp-*.whl"))) as wheel:
            wheel.extractall(site)
        (site / f"{mark}.py").write_text("")
        call("docker", "create", "--name", name, IMAGE)
        try:
            call("docker", "cp", f"{site}/.", f"{name}:{_PACKAGES}")
            call("docker", "cp", "-L", str(_OPENMP), f"{name}:{_OPENMP}")
            call("docker", "commit", name, f"{self.image}:{tag}")
        finally:
            call("docker", "rm", "-f", name)
            shutil.rmtree(site)
        call("docker", "push", "--quiet", f"{self.image}:{tag}")
        call("docker", "rmi", f"{self.image}:{tag}")
        return f"{self.image}:{tag}"

    def forget_images(self) -> None:
        """Take all images of this registry off the engine."""
        listed = call("docker", "images", "--quiet", "--no-trunc", self.image).split()
        for image in dict.fromkeys(listed):
            call("docker", "rmi", "--force", image)


@contextmanager
def registry(folder: Path) -> Iterator[Registry]:
    """A registry for as long as this lasts."""
    if shutil.which("docker-registry") is None:
        install("docker-registry")
    if not _OPENMP.exists():
        install("libgomp1")
    port = free_port()
    config = folder / "registry.yml"
    config.write_text(_CONFIG.format(folder=folder / "images", port=port))
    with (folder / "registry.log").open("wb") as log:
        process = subprocess.Popen(
            ["docker-registry", "serve", str(config)], stdout=log, stderr=log
        )
    found = Registry(f"127.0.0.1:{port}", folder)
    try:
        _wait(found)
        yield found
        found.forget_images()
    finally:
        process.terminate()
        process.wait(20)


def _wait(found: Registry) -> None:
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    for _ in range(200):
        try:
            direct.open(f"http://{found.host}/v2/", timeout=2).close()
            return
        except OSError:
            time.sleep(0.05)
    pytest.fail((found.folder / "registry.log").read_text()[-500:])
