"""Images that are really built and run: the command, a container of one, its health."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.provision.machine import call
from tests.provision.sandbox import free_port

# Each worker has its own: tests of this file may run side by side.
PREFIX = f"doctor-test-built-{os.getpid()}"


def doctor(*words: str, status: int = 0) -> str:
    """Run the command; what it printed."""
    answer = subprocess.run(
        [sys.executable, "-m", "doctor", *words], capture_output=True, text=True, check=False
    )
    assert answer.returncode == status, answer.stderr[-3000:]
    return answer.stdout


@contextmanager
def serving(
    image: str, model: Path, *words: str, options: tuple[str, ...] = ()
) -> Iterator[tuple[str, int]]:
    """A container of the image with the known-answer model at /model; its name and port."""
    port = free_port()
    name = f"{PREFIX}-{port}"
    call("docker", "run", "-d", "--name", name, "--network", "host", "--read-only",
         "--cap-drop", "ALL", "--tmpfs", "/tmp:exec", "-v", f"{model}:/model:ro", *options, image,
         *words, "--port", str(port))  # fmt: skip
    try:
        yield name, port
    finally:
        call("docker", "rm", "-f", name)


def health(name: str, limit_s: float = 60) -> str:
    """What the health check says once it says anything, or the container has ended."""
    until = time.monotonic() + limit_s
    found = "starting"
    while found == "starting" and time.monotonic() < until:
        time.sleep(0.5)
        form = "{{.State.Health.Status}} {{.State.Status}}"
        found, state = call("docker", "inspect", "-f", form, name).split()
        if state != "running":
            return call("docker", "logs", name)[-3000:]
    return found
