"""Where runs are kept on this machine, who may run, and which run is unfinished."""

from __future__ import annotations

import fcntl
import os
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

from doctor.binaries.cache import is_trusted_place, user_folder
from doctor.errors import ProvisionError, UsageError
from doctor.provision.goal import digest_of
from doctor.provision.journal import MOVE_AWAY, Journal, on_disk, read_json

_RUN = re.compile(r"[0-9]{8}-[0-9]{6}-[a-z0-9]{1,8}")
# The hash of all else in run.json; an older doctor wrote none.
SEAL = "seal"
_STAMP = len("20261129-191500")
SYSTEM_STATE = "/var/lib/doctor"
_WHERE = "as root for the system; with --user, XDG_STATE_HOME=/PATH names another folder"


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
        """What was asked: verb, profile, target, service (the key of its lock).

        Raises ProvisionError for a damaged file: whose run it is cannot be told then.
        """
        path = self.folder / "run.json"
        asked = read_json(path)
        if not isinstance(asked, dict) or not all(isinstance(v, str) for v in asked.values()):
            raise ProvisionError(f"{path} is damaged: no object of texts", MOVE_AWAY)
        seal = asked.pop(SEAL, "")
        if seal and seal != digest_of(*asked, *asked.values()):
            raise ProvisionError(f"{path} is damaged: its hash has changed", MOVE_AWAY)
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


def _number(name: str) -> int:
    """Which run of its second it is, by its name; an older doctor wrote the number alone."""
    text = name[_STAMP + 1 :]
    digits = text[:-4] or text
    return int(digits) if digits.isascii() and digits.isdigit() else 0


class Runs:
    """The runs below one state folder."""

    def __init__(self, state: Path) -> None:
        self.state = state
        self.folder = state / "runs"

    def create(self) -> Run:
        """A new, private folder for a run, whose name comes after those of all before it.

        The name also marks each process of the run, by which an interrupted one is ended: runs
        of other users, or from other machines, that began in this second must have another.
        """
        self._make(self.folder)
        now = datetime.now(timezone.utc).strftime("%Y%m%d-%H%M%S")
        # A clock that was set back must not make the newest run the oldest.
        last = next(reversed(self._names()), "")
        stamp = max(now, last[:_STAMP])
        first = _number(last) + 1 if last.startswith(stamp) else 1
        for number in range(first, 10_000):
            folder = self.folder / f"{stamp}-{number}{secrets.token_hex(2)}"
            with on_disk(folder), suppress(FileExistsError):
                folder.mkdir(mode=0o700)
                return Run(folder)
        raise ProvisionError("cannot make a folder for this run", f"tidy up {self.folder}")

    def all(self) -> tuple[Run, ...]:
        """Runs that wrote down what was asked of them, oldest first. Raises ProvisionError."""
        paths = [self.folder / name for name in self._names()]
        return tuple(Run(path) for path in paths if (path / "run.json").exists())

    def _names(self) -> list[str]:
        try:
            found = [name for name in os.listdir(self.folder) if _RUN.fullmatch(name)]
        except FileNotFoundError:
            return []
        except OSError as fault:
            raise ProvisionError(f"cannot list {self.folder}: {fault.strerror}", _WHERE) from None
        return sorted(found, key=lambda name: (name[:_STAMP], len(name), name))

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
        with on_disk(path):
            flags = os.O_RDWR | os.O_CREAT | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
            lock = os.open(path, flags, 0o600)
        try:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                holder = os.pread(lock, 20, 0).decode("ascii", "replace").strip() or "unknown"
                raise ProvisionError(
                    f"another doctor works on {service} (process {holder})",
                    "wait until it has ended, or end it: its work can be resumed",
                ) from None
            with on_disk(path):
                os.ftruncate(lock, 0)
                os.pwrite(lock, f"{os.getpid()}\n".encode(), 0)
            yield
        finally:
            os.close(lock)

    def _make(self, folder: Path) -> None:
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as fault:
            raise UsageError(f"cannot make {folder}: {fault.strerror}", _WHERE) from None
        if os.geteuid() == 0 and not is_trusted_place(str(folder)):
            raise UsageError(
                f"another user can exchange {folder} while root writes there",
                "run it with a home of root's own: sudo -H",
            )
