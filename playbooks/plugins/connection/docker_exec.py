"""Connection plugin: tasks run in a container of this machine by `docker exec`.

Needs nothing but ansible-core. The words of a task reach the container's /bin/sh as one
argument, as Ansible made them; no shell of this machine sees them.
"""

from __future__ import annotations

import shlex
import subprocess

from ansible.errors import AnsibleConnectionFailure, AnsibleFileNotFound
from ansible.plugins.connection import ConnectionBase

DOCUMENTATION = """
name: docker_exec
short_description: run tasks in a container through the docker command
description: Runs commands with docker exec and passes files through standard input and output.
author: llm-doctor
options:
  remote_addr:
    description: The name of the container.
    default: inventory_hostname
    vars:
      - name: inventory_hostname
      - name: ansible_host
"""


class Connection(ConnectionBase):
    """One container."""

    transport = "docker_exec"
    has_pipelining = True

    def _connect(self) -> Connection:
        if not self._connected:
            status, said, _ = self._docker(["inspect", "-f", "{{.State.Running}}", self._name()])
            self._connected = status == 0 and said.strip() == b"true"
            if not self._connected:
                raise AnsibleConnectionFailure(f"no running container {self._name()}")
        return self

    def exec_command(
        self, cmd: str, in_data: bytes | None = None, sudoable: bool = False
    ) -> tuple[int, bytes, bytes]:
        """Run a command and return its status, output and errors."""
        super().exec_command(cmd, in_data=in_data, sudoable=sudoable)
        return self._inside(cmd, in_data)

    def put_file(self, in_path: str, out_path: str) -> None:
        """Copy a file into the container."""
        super().put_file(in_path, out_path)
        try:
            with open(in_path, "rb") as file:
                data = file.read()
        except FileNotFoundError as fault:
            raise AnsibleFileNotFound(str(fault)) from None
        status, _, said = self._inside(f"cat > {shlex.quote(out_path)}", data)
        if status:
            raise AnsibleConnectionFailure(f"cannot write {out_path}: {said!r}")

    def fetch_file(self, in_path: str, out_path: str) -> None:
        """Copy a file out of the container."""
        super().fetch_file(in_path, out_path)
        status, data, said = self._inside(f"cat {shlex.quote(in_path)}", None)
        if status:
            raise AnsibleConnectionFailure(f"cannot read {in_path}: {said!r}")
        with open(out_path, "wb") as file:
            file.write(data)

    def close(self) -> None:
        """Nothing is held open."""
        self._connected = False

    def reset(self) -> None:
        """Look again whether the container runs, for instance after a reboot."""
        self.close()
        self._connect()

    def _name(self) -> str:
        name: str = self.get_option("remote_addr")
        return name

    def _inside(self, command: str, data: bytes | None) -> tuple[int, bytes, bytes]:
        return self._docker(["exec", "-i", self._name(), "/bin/sh", "-c", command], data)

    def _docker(self, words: list[str], data: bytes | None = None) -> tuple[int, bytes, bytes]:
        answer = subprocess.run(["docker", *words], input=data, capture_output=True, check=False)
        return answer.returncode, answer.stdout, answer.stderr
