"""The real command in a machine with a fault, and what counts as a clear answer."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.provision.machine import may_mount

ROOT = Path(__file__).parent.parent.parent
OLD_DRIVER = str(ROOT / "examples/old-driver.yaml")
LIMIT_S = 240.0
KEPT = ("PATH", "LANG", "SSL_CERT_FILE", "PIP_CERT", "PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL")
# A mount namespace of its own: what is mounted in it is gone when the command ends.
ALONE = ("unshare", "--mount")
# Where a home lies in it, whatever becomes of the folders for temporary files.
SEEN_AS = Path("/mnt")
TRACES = ("Traceback", "this is a bug", "Exception", "Error(")


@dataclass(frozen=True)
class Answer:
    """How a command ended."""

    status: int
    out: str
    err: str

    def expect_clear(self, *allowed: int) -> None:
        """An exit status of the contract, no trace, and for a failure what and what next."""
        said = f"{self.status}: {self.out[-500:]}\n{self.err[-1500:]}"
        assert self.status in (allowed or range(6)), said
        assert not [word for word in TRACES if word in self.out + self.err], said
        if self.status in (2, 4) and "doctor: " in self.err:
            message, _, hint = self.err[self.err.rindex("doctor: ") :].rstrip().rpartition("\n")
            assert message.startswith("doctor: "), said
            assert hint.startswith("  "), said


@dataclass(frozen=True)
class Person:
    """Someone with a home; `faults` are shell lines that spoil the machine for them alone.

    With faults their home is seen as /mnt.
    """

    home: Path
    faults: str = ""
    extra: Mapping[str, str] | None = None

    @property
    def environment(self) -> dict[str, str]:
        """Nothing of the person who runs the tests, but their package index."""
        kept = {name: os.environ[name] for name in KEPT if name in os.environ}
        return {**kept, "HOME": str(self.seen), **(self.extra or {})}

    @property
    def seen(self) -> Path:
        """The home as the command sees it."""
        return SEEN_AS if self.faults else self.home

    def start(self, *words: str) -> subprocess.Popen[str]:
        """Start the command."""
        argv = [sys.executable, "-m", "doctor", *words]
        if self.faults:
            need_mounts()
            lines = f'mount --bind {self.home} {SEEN_AS}\n{self.faults}\nexec "$@"'
            argv = [*ALONE, "sh", "-ec", lines, "sh", *argv]
        return subprocess.Popen(
            argv, cwd="/", env=self.environment, text=True, errors="replace",
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    def ask(self, *words: str) -> Answer:
        """Run the command to its end."""
        process = self.start(*words)
        try:
            out, err = process.communicate(timeout=LIMIT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
        return Answer(process.returncode, out, err)


@functools.cache
def need_mounts() -> None:
    """Skip where this user may not mount anything in a namespace of its own."""
    if not may_mount():
        pytest.skip("mounts of one's own need root (unshare --mount)")
