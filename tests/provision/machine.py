"""A fresh Debian with systemd in a container, reached by docker exec and by ssh on loopback.

The engine of Debian's docker.io is started if none runs, and ended again; a second one is
never started beside a running one.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import pytest

from tests.provision.sandbox import free_port

IMAGE = "doctor-test-systemd:bookworm"
# The same with the lists of packages and what Ansible needs to install one: minutes of loops.
PREPARED = "doctor-test-prepared:bookworm"
ROOT = Path(__file__).parents[2]
DATA = Path("/var/tmp/doctor-test-docker")
PID = DATA / "pid"
PACKAGES = "ca-certificates,python3,python3-venv,systemd,systemd-sysv,dbus,openssh-server,procps"
SOCKET = Path("/var/run/docker.sock")


@dataclass(frozen=True)
class Machine:
    """A running container; `port` is that of its sshd, `ssh_config` a file for ssh -F."""

    name: str
    port: int
    ssh_config: Path

    def run(self, *argv: str, text: str = "") -> str:
        """Run a command in it as root."""
        return call("docker", "exec", "-i", self.name, *argv, text=text)

    def status(self, *argv: str) -> tuple[int, str]:
        """Run a command in it as root: its exit status, output and errors."""
        answer = subprocess.run(
            ["docker", "exec", self.name, *argv],
            capture_output=True, text=True, timeout=1200, check=False,
        )  # fmt: skip
        return answer.returncode, answer.stdout + answer.stderr

    @property
    def by_docker(self) -> tuple[str, ...]:
        """Options of doctor to reach it by docker exec."""
        return ("--on", f"docker://{self.name}")

    @property
    def by_ssh(self) -> tuple[str, ...]:
        """Options of doctor to reach it by ssh."""
        return ("--on", f"ssh://root@127.0.0.1:{self.port}", "--ssh-config", str(self.ssh_config))

    def restart(self) -> None:
        """Stop its systemd and boot it again."""
        call("docker", "restart", "-t", "20", self.name)
        self.wait()

    def wait(self) -> None:
        """Wait until it has booted: every unit has started, or has failed to."""
        until = time.monotonic() + 300
        while (state := self._state().strip()) not in ("running", "degraded"):
            assert time.monotonic() < until, f"{self.name} has not booted: {state}"
            time.sleep(0.3)

    def _state(self) -> str:
        answer = subprocess.run(
            ["docker", "exec", self.name, "systemctl", "is-system-running"],
            capture_output=True,
            text=True,
            check=False,
        )
        return answer.stdout


def call(*argv: str, text: str = "", limit_s: float = 1200) -> str:
    """Run a command of this machine and return its output."""
    answer = subprocess.run(
        argv, input=text, capture_output=True, text=True, timeout=limit_s, check=False
    )
    assert answer.returncode == 0, f"{argv}: {answer.stderr[-800:]}"
    return answer.stdout


def answers() -> bool:
    """Whether a Docker engine answers."""
    if shutil.which("docker") is None:
        return False
    return subprocess.run(["docker", "info"], capture_output=True, check=False).returncode == 0


@contextmanager
def docker_engine() -> Iterator[None]:
    """An engine: the one that runs, else one of our own for as long as any test needs it.

    Workers that run side by side share it: the first starts it, the last ends it.
    """
    if os.getuid() != 0:
        if not answers():
            _none("no Docker engine answers, and only root can start one")
        yield
        return
    DATA.mkdir(mode=0o700, exist_ok=True)
    with (DATA / "door").open("w") as door, (DATA / "users").open("w") as users:
        with locked(door):
            if not answers():
                _start()
            fcntl.flock(users, fcntl.LOCK_SH)
        try:
            yield
        finally:
            with locked(door):
                fcntl.flock(users, fcntl.LOCK_UN)
                with suppress(BlockingIOError):
                    fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    _end()


@contextmanager
def locked(file: IO[str]) -> Iterator[None]:
    """Alone, among all workers."""
    fcntl.flock(file, fcntl.LOCK_EX)
    try:
        yield
    finally:
        fcntl.flock(file, fcntl.LOCK_UN)


def _start() -> None:
    """Start an engine that belongs to nobody's process; its number is in DATA/pid."""
    if _listens(SOCKET):
        _none("there is a socket of a Docker engine that does not answer")
    if not may_mount():
        _none("an engine needs the right to mount, which this container has not")
    if shutil.which("dockerd") is None:
        install("docker.io")
    command = ["setsid", "--fork", "dockerd", "--data-root", f"{DATA}/data", "--exec-root",
               f"{DATA}/exec", "-p", str(PID), "--bridge=none", "--iptables=false"]  # fmt: skip
    with (DATA / "dockerd.log").open("wb") as log:
        subprocess.run(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, check=True)
    until = time.monotonic() + 60
    while not answers():
        if time.monotonic() > until:
            _none((DATA / "dockerd.log").read_text()[-300:])
        time.sleep(0.2)


def may_mount() -> bool:
    """Whether mounts of one's own can be made: root on a machine can, in most containers not."""
    if shutil.which("unshare") is None:
        return False
    trial = ["unshare", "--mount", "mount", "-t", "tmpfs", "none", "/mnt"]
    return subprocess.run(trial, capture_output=True, check=False).returncode == 0


def _listens(path: Path) -> bool:
    """Whether a process has that socket; an engine that was killed leaves the file alone."""
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(5)
        try:
            probe.connect(str(path))
        except (FileNotFoundError, ConnectionRefusedError):
            return False
        except OSError:
            return True
        return True


def _end() -> None:
    """End the engine, if it is one of ours."""
    if not PID.is_file():
        return
    number = PID.read_text().strip()
    place = Path("/proc", number)
    if not place.exists() or b"dockerd" not in (place / "cmdline").read_bytes():
        return
    os.kill(int(number), signal.SIGTERM)
    until = time.monotonic() + 60
    while place.exists() and time.monotonic() < until:
        time.sleep(0.1)


def _none(why: str) -> None:
    if os.environ.get("DOCTOR_REQUIRE_ENGINE") == "1":
        pytest.fail(f"a Docker engine is required: {why}", pytrace=False)
    pytest.skip(f"no Docker engine: {why}")


def install(*packages: str) -> None:
    """Install packages of the distribution, one worker at a time, or skip."""
    DATA.mkdir(mode=0o700, exist_ok=True)
    with (DATA / "apt").open("w") as apt, locked(apt):
        _install(packages)


def _install(packages: tuple[str, ...]) -> None:
    env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for words in (["update", "-qq"], ["install", "-y", "-qq", "--no-install-recommends"]):
        command = ["apt-get", *words, *(packages if words[0] == "install" else ())]
        if subprocess.run(command, env=env, capture_output=True, check=False).returncode:
            _none(f"apt-get cannot install {' '.join(packages)}")


def systemd_image(folder: Path) -> None:
    """A Debian with systemd and sshd, made by debootstrap once and kept by the engine."""
    with (DATA / "image").open("w") as making, locked(making):
        if not _has(IMAGE):
            _make_image(folder)


def prepared_image(folder: Path) -> None:
    """That Debian, after its packages have been asked for once."""
    systemd_image(folder)
    with (DATA / "image").open("w") as making, locked(making):
        if not _has(PREPARED):
            _prepare()


def _has(image: str) -> bool:
    found = subprocess.run(["docker", "image", "inspect", image], capture_output=True, check=False)
    return found.returncode == 0


def _prepare() -> None:
    name = "doctor-test-preparing"
    install = "apt-get update -qq && apt-get install -y -qq --no-install-recommends python3-apt"
    try:
        call("docker", "run", "--name", name, "--network", "host",
             "-v", "/etc/resolv.conf:/etc/resolv.conf:ro", IMAGE, "sh", "-c", install)  # fmt: skip
        call("docker", "commit", "-c", 'CMD ["/sbin/init"]', name, PREPARED)
    finally:
        call("docker", "rm", "-f", name)


def _make_image(folder: Path) -> None:
    if shutil.which("debootstrap") is None:
        install("debootstrap")
    root = folder / "root"
    call("debootstrap", "--variant=minbase", f"--include={PACKAGES}", "bookworm", str(root))
    archive = folder / "root.tar"
    call("tar", "--numeric-owner", "-C", str(root), "-cf", str(archive), ".")
    call("docker", "import", "-c", 'CMD ["/sbin/init"]', "-c", "ENV container=docker",
         str(archive), IMAGE)  # fmt: skip
    archive.unlink()
    shutil.rmtree(root)


def boot(name: str, image: str, *options: str) -> None:
    """Start a container whose first process is systemd."""
    call(
        "docker", "run", "-d", "--name", name, "--network", "host",
        "--restart", "always", *options,
        "--stop-signal", "SIGRTMIN+3", "-v", "/sys/fs/cgroup:/sys/fs/cgroup:ro",
        "-v", "/etc/resolv.conf:/etc/resolv.conf:ro",
        "--tmpfs", "/run", "--tmpfs", "/run/lock", "--tmpfs", "/tmp:exec", image,
    )  # fmt: skip


@contextmanager
def machine(folder: Path, *options: str, image: str = IMAGE) -> Iterator[Machine]:
    """A fresh machine that is gone afterwards; `options` are for docker run."""
    key, port = folder / "id", free_port()
    call("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key))
    config = folder / "ssh_config"
    config.write_text(
        f"Host *\n  IdentityFile {key}\n  StrictHostKeyChecking no\n"
        "  UserKnownHostsFile /dev/null\n  LogLevel ERROR\n"
    )
    found = Machine(f"doctor-test-{port}", port, config)
    boot(found.name, image, *options)
    try:
        found.wait()
        found.run("mkdir", "-p", "/root/.ssh")
        found.run("tee", "/root/.ssh/authorized_keys", text=(folder / "id.pub").read_text())
        listen = f"Port {port}\nListenAddress 127.0.0.1\n"
        found.run("tee", "/etc/ssh/sshd_config.d/test.conf", text=listen)
        found.run("systemctl", "restart", "ssh")
        yield found
    finally:
        call("docker", "rm", "-f", found.name)


def checkout(*places: Path) -> tuple[str, ...]:
    """Options by which a machine sees this doctor, its Python and more under the same paths."""
    mine = {str(ROOT), sys.prefix, sys.base_prefix, *map(str, places)} - {"/usr"}
    mounts = tuple(word for place in sorted(mine) for word in ("-v", f"{place}:{place}:ro"))
    return (*mounts, "-w", str(ROOT))


@contextmanager
def fresh_machine(folder: Path, *options: str) -> Iterator[Machine]:
    """The engine, the image and a machine of it, for as long as this lasts."""
    with docker_engine():
        systemd_image(folder)
        with machine(folder, *options) as found:
            yield found
