"""The journal of a run: one line before each step and one after, on disk before going on.

A run's folder holds run.json (what was asked), before.json and goal.json (where it came
from and where it goes), journal.jsonl and the logs of the roles. A run without an end in
its journal is unfinished.
"""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from doctor.errors import ProvisionError
from doctor.named_files import read_named

BEGIN, STEP, DONE, FAILED, BACK, END = "begin", "step", "done", "failed", "back", "end"
# A step asks for a reboot; the text is the boot in which it was made.
REBOOT = "reboot"
APPLIED, ROLLED_BACK, GIVEN_UP = "applied", "rolled-back", "given-up"
# No end: the run goes on after a reboot, or when a person has decided.
SUSPENDED = "suspended"
MOVE_AWAY = "move the folder of that run away: doctor then goes by what it finds on the machine"
_LIMIT = 16 << 20


@dataclass(frozen=True)
class Entry:
    """One line: what happened (`event`), to which step, with further words."""

    event: str
    at: str
    step: str = ""
    text: str = ""


class Journal:
    """Appends to the journal of one run."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "journal.jsonl"

    def write(self, event: str, step: str = "", text: str = "") -> None:
        """Add one line and wait until it is on disk. Raises ProvisionError if it cannot be."""
        now = datetime.now(timezone.utc).isoformat(timespec="milliseconds")
        row = {"event": event, "at": now, "step": step, "text": text[:4000]}
        with on_disk(self.path):
            self._append(json.dumps({k: v for k, v in row.items() if v}) + "\n")

    def _append(self, line: str) -> None:
        handle = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            size = os.fstat(handle).st_size
            # What a crash cut off must not swallow this line too.
            whole = not size or os.pread(handle, 1, size - 1) == b"\n"
            data = line.encode() if whole else f"\n{line}".encode()
            if os.write(handle, data) != len(data):
                # A disk that fills takes a part and says nothing.
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            os.fsync(handle)
        finally:
            os.close(handle)

    def read(self) -> tuple[Entry, ...]:
        """All whole lines; one that a crash cut off is not there."""
        return tuple(_entries(self.path))

    @property
    def end(self) -> str:
        """How the run ended: applied, rolled-back, given-up, or "" if it has not."""
        ends = [entry.text for entry in self.read() if entry.event == END]
        return ends[-1] if ends else ""

    @property
    def last_step(self) -> str:
        """The step that was begun last."""
        steps = [entry.step for entry in self.read() if entry.event == STEP]
        return steps[-1] if steps else ""


def _entries(path: Path) -> Iterator[Entry]:
    for line in _text(path).splitlines():
        with suppress(ValueError, RecursionError, KeyError, TypeError, AttributeError):
            row = json.loads(line)
            words = (row["event"], row["at"], row.get("step", ""), row.get("text", ""))
            if all(isinstance(word, str) for word in words):
                yield Entry(*words)


def _text(path: Path) -> str:
    """The text of a journal, "" if there is none. Raises ProvisionError."""
    try:
        data = read_named(path, _LIMIT + 1)
    except FileNotFoundError:
        return ""
    except OSError as fault:
        raise ProvisionError(f"{path}: {fault.strerror}", MOVE_AWAY) from None
    if len(data) > _LIMIT:
        raise ProvisionError(f"{path}: larger than {_LIMIT >> 20} MiB, no journal", MOVE_AWAY)
    return data.decode("utf-8", "replace")


@contextmanager
def on_disk(path: Path) -> Iterator[None]:
    """Turn a full disk or a folder that is read-only into a ProvisionError that names it."""
    try:
        yield
    except OSError as fault:
        raise ProvisionError(
            f"{path} cannot be written: {fault.strerror}",
            "mend that first; a run that was begun is taken up with `doctor apply PROFILE "
            "--resume` or undone with `doctor rollback PROFILE`",
        ) from None


def write_durably(path: Path, text: str) -> None:
    """Write a private file whole, on disk when this returns. Raises ProvisionError."""
    with on_disk(path):
        _write_whole(path, text)


def _write_whole(path: Path, text: str) -> None:
    scratch = path.with_name(f".{path.name}.part")
    handle = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8", errors="surrogateescape") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(scratch, path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def read_json(path: Path) -> Any:
    """A file of a run; raises ProvisionError if it is not there or damaged."""
    try:
        return json.loads(read_text(path))
    except (ValueError, RecursionError) as fault:
        raise ProvisionError(f"{path} is damaged: {fault}", MOVE_AWAY) from None


def read_text(path: Path) -> str:
    """The text of a file of a run; raises ProvisionError if it cannot be read."""
    try:
        data = read_named(path, _LIMIT)
    except OSError as fault:
        raise ProvisionError(f"{path}: {fault.strerror}", MOVE_AWAY) from None
    return data.decode("utf-8", "surrogateescape")
