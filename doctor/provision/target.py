"""The machine that is acted upon: this one, one behind ssh, or a container of this machine.

`local`, `ssh://[user@]host[:port]`, `docker://name`. Commands are words, never shell text;
what a remote shell must see is quoted.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from doctor.errors import RemoteError, UsageError

LOCAL, SSH, DOCKER = "local", "ssh", "docker"
# What to do about an answer that is no answer of the program that was sent.
NOISE = "does its login print something, or is its python3 a wrapper? try ssh HOST python3 -V"
_ADDRESS = re.compile(
    r"(?P<kind>ssh|docker)://(?:(?P<user>[A-Za-z0-9_][\w.-]{0,63})@)?"
    r"(?P<host>[A-Za-z0-9][\w.-]{0,253})(?::(?P<port>[0-9]{1,5}))?"
)


@dataclass(frozen=True)
class Target:
    """Where to act. `ssh_config` is a file for ssh's -F, "" for the user's own."""

    kind: str = LOCAL
    host: str = "localhost"
    user: str = ""
    port: int = 0
    ssh_config: str = ""

    @property
    def name(self) -> str:
        """How it was written."""
        if self.kind == LOCAL:
            return LOCAL
        user = f"{self.user}@" if self.user else ""
        return f"{self.kind}://{user}{self.host}" + (f":{self.port}" if self.port else "")

    def command(self, argv: Sequence[str]) -> list[str]:
        """The words that run `argv` there with standard input passed on."""
        if self.kind == DOCKER:
            return ["docker", "exec", "-i", self.host, *argv]
        if self.kind == SSH:
            return [*self._ssh(), shlex.join(argv)]
        return list(argv)

    def run(self, argv: Sequence[str], text: str = "", limit_s: float = 60.0) -> str:
        """Run a command there and return its output. Raises RemoteError with what it said."""
        return self.run_bytes(argv, text.encode(), limit_s).decode("utf-8", "replace")

    def run_bytes(self, argv: Sequence[str], data: bytes = b"", limit_s: float = 60.0) -> bytes:
        """Like run, with bytes for standard input."""
        try:
            answer = subprocess.run(
                self.command(argv), input=data, capture_output=True, timeout=limit_s, check=False
            )
        except FileNotFoundError as fault:
            raise RemoteError(
                f"{self.name}: {fault.filename} is not installed here", "install it on this machine"
            ) from None
        except subprocess.TimeoutExpired:
            raise RemoteError(
                f"{self.name}: no answer within {limit_s:g} s",
                "is the machine up, and reached without a question?",
            ) from None
        if answer.returncode:
            said = answer.stderr.decode("utf-8", "replace").strip()[-800:]
            raise RemoteError(
                f"{self.name}: {argv[0]} ended with {answer.returncode}: {said}", "try that by hand"
            )
        return answer.stdout

    def inventory(self, python: str) -> dict[str, object]:
        """What Ansible must know to reach it; `python` runs its modules there."""
        found: dict[str, object] = {"ansible_python_interpreter": python}
        if self.kind == LOCAL:
            return {**found, "ansible_connection": "local"}
        if self.kind == DOCKER:
            return {**found, "ansible_connection": "docker_exec", "ansible_host": self.host}
        found.update(ansible_connection="ssh", ansible_host=self.host)
        if self.user:
            found["ansible_user"] = self.user
        if self.port:
            found["ansible_port"] = self.port
        if self.ssh_config:
            found["ansible_ssh_common_args"] = shlex.join(["-F", self.ssh_config])
        return found

    def _ssh(self) -> list[str]:
        config = ["-F", self.ssh_config] if self.ssh_config else []
        port = ["-p", str(self.port)] if self.port else []
        user = f"{self.user}@" if self.user else ""
        patience = ["-o", "ConnectTimeout=15", "-o", "BatchMode=yes"]
        return ["ssh", "-T", *config, *patience, *port, f"{user}{self.host}"]


def parse_target(text: str, ssh_config: str = "") -> Target:
    """Read "local", "ssh://root@host:2222", "docker://name"; raises UsageError."""
    if text in ("", LOCAL, "localhost"):
        return Target()
    match = _ADDRESS.fullmatch(text)
    if match is None or (match["kind"] == DOCKER and (match["user"] or match["port"])):
        raise UsageError(
            f"--on {text[:80]!r} is no target",
            "write local, ssh://[user@]host[:port] or docker://name",
        )
    if ssh_config and not os.path.isfile(ssh_config):
        raise UsageError(f"--ssh-config {ssh_config[:200]}: no such file", "name a file for ssh -F")
    # Ansible starts ssh from another folder.
    ssh_config = str(Path(ssh_config).absolute()) if ssh_config else ""
    port = int(match["port"] or 0)
    return Target(match["kind"], match["host"], match["user"] or "", port, ssh_config)
