"""A Debian as debootstrap leaves it, in a container: what a newcomer has."""

from __future__ import annotations

import shutil
import socket
import subprocess
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.provision.machine import DATA, call, install, locked

ROOT = Path(__file__).parent.parent.parent
SUITES = ("bookworm", "trixie")
PYTHON = ("python3", "python3-venv")
# What the engine of the demo needs of the system; without it the plan names it.
ENGINE = ("libgomp1",)
# What this machine needs to reach its package index: a newcomer's machine has its own.
SITE = ("/etc/resolv.conf", "/etc/ssl/certs", "/usr/share/ca-certificates", "/etc/pip.conf")
# Of the README's engine; containers share the ports of this machine.
PORT = 8080
VARIABLES = ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_CERT", "SSL_CERT_FILE", "UV_INDEX_URL")


@dataclass(frozen=True)
class Answer:
    """How a command ended."""

    status: int
    out: str
    err: str

    @property
    def all(self) -> str:
        """Both streams."""
        return self.out + self.err


@dataclass(frozen=True)
class Box:
    """A running container; `user` is root or a person without rights."""

    name: str
    user: str = "root"

    @property
    def home(self) -> str:
        """The user's folder."""
        return "/root" if self.user == "root" else f"/home/{self.user}"

    def run(
        self,
        *argv: str,
        folder: str = "",
        limit_s: float = 1800,
        env: Mapping[str, str] | None = None,
    ) -> Answer:
        """Run a command; it never raises for its exit status."""
        words = [f"--env={name}={value}" for name, value in (env or {}).items()]
        command = ["docker", "exec", "--user", self.user, "--workdir", folder or self.home,
                   f"--env=HOME={self.home}", *words, self.name, *argv]  # fmt: skip
        done = subprocess.run(command, capture_output=True, timeout=limit_s, check=False)
        out, err = (s.decode("utf-8", "replace") for s in (done.stdout, done.stderr))
        return Answer(done.returncode, out, err)


def image_of(suite: str, folder: Path) -> str:
    """The name of the image of a suite, made if it is not there."""
    name = f"doctor-test-fresh:{suite}"
    found = subprocess.run(["docker", "image", "inspect", name], capture_output=True, check=False)
    if found.returncode == 0:
        return name
    if shutil.which("debootstrap") is None:
        install("debootstrap")
    root, archive = folder / suite, folder / f"{suite}.tar"
    call("debootstrap", "--variant=minbase", "--include=ca-certificates", suite, str(root),
         limit_s=1200)  # fmt: skip
    call("tar", "--numeric-owner", "-C", str(root), "-cf", str(archive), ".")
    call("docker", "import", "-c", 'CMD ["sleep", "infinity"]', str(archive), name)
    archive.unlink()
    shutil.rmtree(root)
    return name


@contextmanager
def box(image: str, user: str = "root", packages: tuple[str, ...] = ()) -> Iterator[Box]:
    """A fresh container with this project in the user's folder; gone afterwards."""
    name = f"doctor-test-fresh-{uuid.uuid4().hex[:8]}"
    mounts = [f"--volume={path}:{path}:ro" for path in SITE if Path(path).exists()]
    known = [f"--env={variable}" for variable in VARIABLES]
    call("docker", "run", "-d", "--init", "--network", "host", "--name", name, *mounts, *known,
         image)  # fmt: skip
    found = Box(name)
    try:
        if packages:
            assert found.run("apt-get", "-qq", "update").status == 0
            answer = found.run("apt-get", "-qq", "install", "-y", "--no-install-recommends",
                               *packages, env={"DEBIAN_FRONTEND": "noninteractive"})  # fmt: skip
            assert answer.status == 0, answer.all
        if user != "root":
            assert found.run("useradd", "-m", user).status == 0
            found = Box(name, user)
        copy_project(found)
        yield found
    finally:
        call("docker", "rm", "-f", name)


def copy_project(to: Box) -> None:
    """What is committed, as `git clone` would bring it."""
    archive = subprocess.run(
        ["git", "archive", "--format=tar", "--prefix=doctor/", "HEAD"],
        cwd=ROOT, capture_output=True, check=True,
    ).stdout  # fmt: skip
    command = ["docker", "exec", "-i", "--user", to.user, "--workdir", to.home, to.name,
               "tar", "-xf", "-"]  # fmt: skip
    subprocess.run(command, input=archive, check=True)


@contextmanager
def the_port() -> Iterator[None]:
    """The port of the README's engine, for one worker at a time; fails if a stranger has it."""
    with (DATA / f"port-{PORT}").open("w") as door, locked(door):
        with socket.socket() as trial:
            trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                trial.bind(("127.0.0.1", PORT))
            except OSError as fault:
                pytest.fail(f"port {PORT} of this machine is held: {fault}", pytrace=False)
        yield
