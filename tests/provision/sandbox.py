"""A user of this machine with an empty home, who runs the real command."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

KEPT = ("PATH", "LANG", "SSL_CERT_FILE", "PIP_CERT", "PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL")
LIMIT_S = 1200.0
PROFILE = """\
schema: doctor/profile/v1
name: {name}
engine: {{name: xllamacpp}}
accelerator: {{vendor: cpu}}
install: {{method: venv, requirements: [{requirement}]}}
model: {model}
serving:
  port: {port}
  args: {{max_model_len: {length}, threads: 1}}
{more}
service: {{start_s: {start_s}, stop_s: 5}}
"""


@dataclass(frozen=True)
class Answer:
    """How one call of the command ended."""

    status: int
    out: str
    err: str
    cpu_s: float

    @property
    def json(self) -> Any:
        """Standard output as JSON."""
        return json.loads(self.out)


@dataclass(frozen=True)
class Sandbox:
    """`home` is the user's, `wheels` a folder with the engine's files and its lock.

    `extra` is added to the environment.
    """

    home: Path
    wheels: Path
    extra: Mapping[str, str] = field(default_factory=dict)

    @property
    def environment(self) -> dict[str, str]:
        """No systemd, no configuration of the person who runs the tests."""
        kept = {name: os.environ[name] for name in KEPT if name in os.environ}
        own = {"HOME": str(self.home), "XDG_RUNTIME_DIR": str(self.home / "runtime")}
        return {**kept, **own, **self.extra}

    @property
    def service(self) -> Path:
        """The folder of the service demo."""
        return self.home / ".local/share/doctor/demo"

    @property
    def runs(self) -> list[Path]:
        """The folders of all runs of this user, oldest first."""
        return sorted((self.home / ".local/state/doctor/runs").glob("*"))

    def profile(
        self,
        name: str = "demo",
        requirement: str = "xllamacpp",
        model: str = "{source: embedded, format: gguf}",
        port: int = 0,
        length: int = 512,
        start_s: int = 300,
        more: str = "",
    ) -> Path:
        """Write a profile; port 0 takes a free one."""
        path = self.home / f"{name}-{time.monotonic_ns()}.yaml"
        text = PROFILE.format(
            name=name,
            requirement=requirement,
            model=model,
            port=port or free_port(),
            length=length,
            start_s=start_s,
            more=more,
        )
        path.write_text(text)
        return path

    def start(self, *words: str | Path) -> subprocess.Popen[str]:
        """Start the command in this home, for a service of this user."""
        return self._start(*words, "--user")

    def _start(self, *words: str | Path) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "doctor", *map(str, words)],
            env=self.environment,
            cwd=self.home,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *words: str | Path) -> Answer:
        """Run the command to its end, for a service of this user."""
        return self._end(self.start(*words))

    def run_on(self, machine: tuple[str, ...], *words: str | Path) -> Answer:
        """Run the command to its end, for a system service of another machine."""
        return self._end(self._start(*words, *machine))

    def _end(self, process: subprocess.Popen[str]) -> Answer:
        before = os.times().children_user
        out, err = process.communicate(timeout=LIMIT_S)
        return Answer(process.returncode, out, err, os.times().children_user - before)

    def apply(self, profile: Path, *words: str) -> Answer:
        """Apply with the files at hand, asking nobody."""
        return self.run("apply", profile, "--yes", *self._files, *words)

    def apply_on(self, machine: tuple[str, ...], profile: Path) -> Answer:
        """Apply to another machine with the files at hand, asking nobody."""
        return self.run_on(machine, "apply", profile, "--yes", *self._files)

    @property
    def _files(self) -> tuple[str, ...]:
        return ("--lock", str(self.wheels / "stack.lock"), "--offline", str(self.wheels))

    def processes(self, mark: str) -> list[int]:
        """Processes of this box that carry an entry in their environment.

        Runs of two boxes that began in the same second have one name.
        """
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    told = (entry / "environ").read_bytes()
                except OSError:
                    continue
                if mark.encode() in told.split(b"\0") and bytes(self.home) in told:
                    found.append(int(entry.name))
        return found

    def end(self) -> None:
        """End what the service has left running."""
        for pid in self.processes(f"DOCTOR_SERVICE={self.service}"):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue


# Below those that Linux lends to connections: a service that is down for a moment keeps its port.
_WORKER = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % 4
_PORTS = iter(range(12_000 + _WORKER * 5_000 + os.getpid() % 50 * 20, 32_000))


def free_port() -> int:
    """A port of the loopback address that nobody uses now and that is given out once."""
    for port in _PORTS:
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise AssertionError("no port is free")


def fetch_engine(folder: Path) -> None:
    """Lock the engine and fetch its file, once for all tests; skip where there is no index."""
    home = folder.parent
    box = Sandbox(home, folder)
    command = ["profile", "lock", str(box.profile()), "-o", str(folder / "stack.lock")]
    folder.mkdir()
    answer = subprocess.run(
        [sys.executable, "-m", "doctor", *command, "--download", str(folder)],
        env={**os.environ, "HOME": str(home)},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    if answer.returncode == 4 and "index" in answer.stderr:
        pytest.skip(f"no package index: {answer.stderr[:200]}")
    assert answer.returncode == 0, answer.stderr
