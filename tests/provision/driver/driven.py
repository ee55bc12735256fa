"""A Debian in a container that passes for another system, with local repositories of drivers."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.provision.driver.repository import Deb, build_repository, make_key
from tests.provision.machine import Machine, boot, call

LIMIT_S = 900
# Builds what the made-up packages build, for a kernel whose module was lost.
DKMS = """\
#!/bin/sh
[ "$1" = autoinstall ] || exit 0
version=$(cat /usr/share/doctor-tests/nvidia-dkms* 2>/dev/null | head -n 1 | sed 's/-.*//')
[ -n "$version" ] || exit 0
mkdir -p "/lib/modules/$3/updates/dkms"
printf 'made up\\0version=%s\\0' "$version" > "/lib/modules/$3/updates/dkms/nvidia.ko"
"""
PROFILE = """\
schema: doctor/profile/v1
name: cluster-driver
accelerator: {{vendor: nvidia}}
driver: {{policy: {policy}, branch: {branch}, modules: {modules}{more}}}
hold: {{driver: {hold}}}
"""


@dataclass(frozen=True)
class Answer:
    """How a call of the command ended."""

    status: int
    out: str
    err: str
    seconds: float

    @property
    def json(self) -> Any:
        """Standard output as JSON."""
        return json.loads(self.out)


@dataclass(frozen=True)
class Driven:
    """A machine whose driver is changed; `home` is that of the user who runs doctor.

    `limit_s` is how long one call of the command may take.
    """

    machine: Machine
    home: Path
    limit_s: float = LIMIT_S

    def become(self, system: str, version: str) -> None:
        """Let it say that it is another distribution, with no repository at all."""
        text = f'ID={system}\nVERSION_ID="{version}"\nID_LIKE=debian\n'
        self.machine.run("rm", "-f", "/etc/os-release")
        self.machine.run("tee", "/etc/os-release", text=text)
        self.machine.run("sh", "-c", ": > /etc/apt/sources.list; rm -rf /etc/apt/sources.list.d/*")
        self.machine.run("tee", "/usr/sbin/dkms", text=DKMS)
        self.machine.run("chmod", "755", "/usr/sbin/dkms")

    def offer(self, debs: Sequence[Deb], name: str = "made-up") -> None:
        """Serve a signed repository of these packages on it, in place of one of that name."""
        key = self.home / "gpg"
        armour = self.home / "key.asc"
        if not key.exists():
            armour.write_text(make_key(key))
        folder = build_repository(self.home / f"repository-{time.monotonic_ns()}", debs, key)
        place = f"/srv/{name}"
        self.machine.run("rm", "-rf", place)
        self.machine.run("mkdir", "-p", "/etc/apt/keyrings")
        call("docker", "cp", "-q", str(folder), f"{self.machine.name}:{place}")
        self.machine.run("tee", "/etc/apt/keyrings/made-up.asc", text=armour.read_text())
        self.machine.run("chmod", "644", "/etc/apt/keyrings/made-up.asc")
        line = f"deb [signed-by=/etc/apt/keyrings/made-up.asc] file:{place} ./\n"
        self.machine.run("tee", f"/etc/apt/sources.list.d/{name}.list", text=line)
        self.machine.run("apt-get", "-q", "update")

    def profile(
        self, branch: int, modules: str = "any", hold: str = "true", policy: str = "install",
        more: str = "",
    ) -> Path:  # fmt: skip
        """Write a profile of the driver alone."""
        path = self.home / f"driver-{time.monotonic_ns()}.yaml"
        text = PROFILE.format(branch=branch, modules=modules, hold=hold, policy=policy, more=more)
        path.write_text(text)
        return path

    def monitored(self, branch: int) -> Path:
        """A profile that wants DCGM too."""
        path = self.profile(branch)
        path.write_text(f"{path.read_text()}monitoring: {{dcgm: true}}\n")
        return path

    def start(self, *words: str | Path) -> subprocess.Popen[str]:
        """Start the command for that machine."""
        kept = {k: os.environ[k] for k in ("PATH", "LANG") if k in os.environ}
        return subprocess.Popen(
            [sys.executable, "-m", "doctor", *map(str, words), *self.machine.by_docker],
            env={**kept, "HOME": str(self.home)},
            cwd=self.home,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *words: str | Path) -> Answer:
        """Run the command to its end."""
        began = time.monotonic()
        process = self.start(*words)
        out, err = process.communicate(timeout=self.limit_s)
        return Answer(process.returncode, out, err, time.monotonic() - began)

    def plan(self, profile: Path | str, *words: str) -> Answer:
        """The plan as JSON."""
        return self.run("plan", profile, "--format", "json", *words)

    def apply(self, profile: Path | str, *words: str) -> Answer:
        """Apply without asking."""
        return self.run("apply", profile, "--yes", *words)

    def drift(self) -> Answer:
        """What drifted, as JSON."""
        return self.run("drift", "nvidia-driver", "--format", "json")

    @property
    def installed(self) -> set[str]:
        """Names of all packages."""
        form = "${Package} ${db:Status-Status}\\n"
        rows = self.machine.run("dpkg-query", "-W", "-f", form).splitlines()
        return {row.split()[0] for row in rows if row.endswith(" installed")}

    @property
    def versions(self) -> dict[str, str]:
        """Installed packages of the driver with their versions."""
        form = "${Package} ${Version} ${db:Status-Status}\\n"
        rows = [r.split() for r in self.machine.run("dpkg-query", "-W", "-f", form).splitlines()]
        return {r[0]: r[1] for r in rows if r[2] == "installed" and "nvidia" in r[0]}

    @property
    def holds(self) -> set[str]:
        """Packages that are held."""
        return set(self.machine.run("apt-mark", "showhold").split())

    @property
    def audit(self) -> str:
        """What dpkg finds in no good state."""
        return self.machine.run("dpkg", "--audit")

    @property
    def kernel(self) -> str:
        """The kernel that runs."""
        return os.uname().release

    def moved_by_upgrade(self) -> list[str]:
        """What a full upgrade would move of the driver."""
        said = self.machine.run("apt-get", "-s", "dist-upgrade")
        return [line for line in said.splitlines() if line[:4] in ("Inst", "Remv")]


@contextmanager
def kept(driven: Driven) -> Iterator[Callable[[], None]]:
    """Keep a machine and the journals of its user as they are; what is given brings both back."""
    name, journals = driven.machine.name, driven.home / ".local"
    image, copy = f"{name}:kept", driven.home / "kept"
    call("docker", "commit", name, image)
    shutil.copytree(journals, copy)

    def bring_back() -> None:
        call("docker", "rm", "-f", name)
        boot(name, image)
        driven.machine.wait()
        shutil.rmtree(journals)
        shutil.copytree(copy, journals)

    try:
        yield bring_back
    finally:
        call("docker", "rm", "-f", name)
        call("docker", "rmi", "-f", image)
