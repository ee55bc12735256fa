"""Where runs are kept on this machine, who may run, and which run is unfinished."""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

from doctor.binaries.cache import user_folder
from doctor.errors import ProvisionError, UsageError
from doctor.provision.journal import Journal, read_json

_RUN = re.compile(r"[0-9]{8}-[0-9]{6}-[a-z0-9]{1,6}")
SYSTEM_STATE = "/var/lib/doctor"


@dataclass(frozen=True)
class Run:
    """One run: its folder, and what was asked of it (run.json)."""

    folder: Path

    @property
    def name(self) -> str:
        """The name of the folder."""
        return self.folder.name

    @property
    def journal(self) -> Journal:
        """Its journal."""
        return Journal(self.folder)

    @property
    def asked(self) -> dict[str, str]:
        """What was asked: verb, profile, target, service (the key of its lock)."""
        asked: dict[str, str] = read_json(self.folder / "run.json")
        return asked


def state_folder(user: bool) -> Path:
    """Where runs are kept: of this user, or of the system for root."""
    if not user:
        return Path(SYSTEM_STATE)
    return _own("XDG_STATE_HOME", ".local/state")


def cache_folder() -> Path:
    """Where downloads are kept."""
    return _own("XDG_CACHE_HOME", ".cache")


def _own(variable: str, below: str) -> Path:
    base = user_folder(variable, below)
    if not base:
        raise UsageError("there is no home to keep runs in", f"set HOME or {variable}")
    return Path(base, "doctor")


class Runs:
    """The runs below one state folder."""

    def __init__(self, state: Path) -> None:
        self.state = state
        self.folder = state / "runs"

    def create(self) -> Run:
        """A new, private folder for a run."""
        self._make(self.folder)
        stamp = datetime.now(timezone.utc).strftime("%Y%m%d-%H%M%S")
        for number in range(1, 10_000):
            folder = self.folder / f"{stamp}-{number}"
            try:
                folder.mkdir(mode=0o700)
            except FileExistsError:
                continue
            return Run(folder)
        raise ProvisionError("cannot make a folder for this run")

    def all(self) -> tuple[Run, ...]:
        """Runs that wrote down what was asked of them, oldest first."""
        if not self.folder.is_dir():
            return ()
        names = sorted(p for p in self.folder.iterdir() if _RUN.fullmatch(p.name))
        return tuple(Run(path) for path in names if (path / "run.json").is_file())

    def of(self, service: str) -> tuple[Run, ...]:
        """The runs of one service on one machine."""
        return tuple(run for run in self.all() if run.asked.get("service") == service)

    def get(self, name: str) -> Run:
        """The run of that name; raises UsageError."""
        for run in self.all():
            if run.name == name:
                return run
        raise UsageError(f"there is no run {name[:60]!r}", f"runs are kept in {self.folder}")

    def unfinished(self, service: str) -> Run | None:
        """A run of that service that was begun and has no end."""
        runs = [run for run in self.of(service) if run.journal.read() and not run.journal.end]
        return runs[-1] if runs else None

    @contextmanager
    def alone(self, service: str) -> Iterator[None]:
        """Be the only one that changes a service; raises ProvisionError if another does.

        The kernel frees the lock when its holder dies, however it dies.
        """
        self._make(self.state / "locks")
        path = self.state / "locks" / re.sub(r"[^A-Za-z0-9._-]", "_", service)
        with path.open("a+") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                lock.seek(0)
                holder = lock.read(20).strip() or "unknown"
                raise ProvisionError(
                    f"another doctor works on {service} (process {holder})",
                    "wait until it has ended, or end it: its work can be resumed",
                ) from None
            lock.truncate(0)
            lock.write(f"{os.getpid()}\n")
            lock.flush()
            yield

    def _make(self, folder: Path) -> None:
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as fault:
            raise UsageError(
                f"cannot make {folder}: {fault.strerror}", "use --user, or become root"
            ) from None
