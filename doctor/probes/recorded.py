"""A host that was written down: by `doctor record`, or by hand for a test.

A recording is a folder:

    files/...       files with their text, at their paths
    paths.json      {path: reason | [names] | {stat}}: folders by their names, things that
                    have no text here, and why something could not be read ("missing" in
                    a stat: why its content could not; "names": what a folder holds)
    links.json      {path: where the link leads}
    commands.json   [{"argv": [...], "returncode": 0, "stdout": text or lines, "stderr": ...}
                    or {"argv": [...], "missing": reason}]
    sockets.json    {socket: {target: JSON or text or {"missing": reason}}}
    disks.json      {path: {"total_mib": n, "free_mib": n} or {"missing": reason}}
    nvml.json       what `probes.nvml` answered, or {"missing": reason}
    dcmi.json       what `probes.dcmi` answered, or {"missing": reason}
    env.json        {name: value}
    host.json       {"unlisted": reason}: what holds for all that is not in the recording

Only what the host has needs to be there. Without host.json the recording is the whole
host: what it lacks is `not-there`. `doctor record` writes `not-stated`, for it wrote down
only what was asked of the host on that day.
"""

from __future__ import annotations

import json
import os
from typing import Any, Optional

from doctor.errors import UsageError
from doctor.facts import Missing, Reading, missing, seen
from doctor.probes.environment import allowed
from doctor.probes.files import relay
from doctor.probes.host import TEXT_LIMIT, CommandResult, DiskUsage, FileStat
from doctor.probes.rooted import resolve

_REASONS = {reason.value: reason for reason in Missing}
_FILE, _FOLDER = 0o100644, 0o040755


class RecordedHost:
    """The host that is written down in `folder`."""

    def __init__(self, folder: str) -> None:
        self._files = os.path.join(folder, "files")
        self._paths = _load(folder, "paths.json", {})
        self._links = _load(folder, "links.json", {})
        self._sockets = _load(folder, "sockets.json", {})
        self._disks = _load(folder, "disks.json", {})
        self._env = _load(folder, "env.json", {})
        self._nvml = _load(folder, "nvml.json", None)
        self._dcmi = _load(folder, "dcmi.json", None)
        commands = _load(folder, "commands.json", [])
        self._commands = {tuple(entry["argv"]): entry for entry in commands}
        unlisted = _load(folder, "host.json", {}).get("unlisted", "not-there")
        self._unlisted = _REASONS.get(unlisted, Missing.NOT_STATED)
        self._names = self._folders()

    def read_text(self, path: str, limit: int = TEXT_LIMIT) -> Reading[str]:
        """Text of a file of the recording."""
        real = self._real(path)
        reason = self._content_reason(real)
        if reason is not None:
            return missing(reason, path)
        try:
            with open(self._files + real, encoding="utf-8", errors="replace", newline="") as file:
                return seen(file.read(limit), path)
        except (OSError, ValueError):  # ValueError: a NUL in the path
            known = real in self._paths or real in self._names
            return missing(Missing.NOT_READABLE if known else self._unlisted, path)

    def list_dir(self, path: str) -> Reading[tuple[str, ...]]:
        """Names in a folder: those of paths.json, or those that the recording holds."""
        real = self._real(path)
        reason = self._content_reason(real)
        if reason is not None:
            return missing(reason, path)
        names = _listed(self._paths.get(real))
        if names is not None:
            return seen(tuple(sorted(names)), path)
        if real in self._names:
            return seen(tuple(sorted(self._names[real])), path)
        return missing(Missing.NOT_READABLE if self._exists(real) else self._unlisted, path)

    def real_path(self, path: str) -> Reading[str]:
        """The path with the recorded links resolved."""
        real = self._real(path)
        if self._exists(real):
            return seen(real, path)
        return missing(self._reason(real) or self._unlisted, path)

    def link(self, path: str) -> Reading[str]:
        """Where a recorded link leads; only the folder of the path is resolved."""
        folder, _, name = path.rstrip("/").rpartition("/")
        real = f"{self._real(folder).rstrip('/')}/{name}"
        if real in self._links:
            return seen(self._links[real], path)
        return seen("", path) if self._exists(real) else relay(self.real_path(real), path)

    def stat(self, path: str) -> Reading[FileStat]:
        """Stat as recorded, or made up from what the recording holds."""
        real = self._real(path)
        if not self._exists(real):
            return missing(self._reason(real) or self._unlisted, path)
        stated = self._paths.get(real)
        given = stated if isinstance(stated, dict) else {}
        mode = _FOLDER if real in self._names or _listed(stated) is not None else _FILE
        size = os.path.getsize(self._files + real) if os.path.isfile(self._files + real) else 0
        fields = ("device", "inode", "size", "mtime_ns", "ctime_ns", "mode", "uid", "gid")
        default = dict.fromkeys(fields, 0)
        default.update(mode=mode, size=size)
        return seen(FileStat(**{name: given.get(name, default[name]) for name in fields}), path)

    def disk(self, path: str) -> Reading[DiskUsage]:
        """Size of a file system as recorded."""
        entry = self._disks.get(path)
        if entry is None:
            return missing(self._unlisted, path)
        if "missing" in entry:
            return missing(_REASONS.get(entry["missing"], Missing.NOT_STATED), path)
        return seen(DiskUsage(entry["total_mib"], entry["free_mib"]), path)

    def run(self, argv: tuple[str, ...], timeout_s: float = 10.0) -> Reading[CommandResult]:  # noqa: ARG002
        """What the program answered when the host was recorded."""
        at = " ".join(argv)
        entry = self._commands.get(argv)
        if entry is None:
            return missing(self._unlisted, at)
        if "missing" in entry:
            return missing(_REASONS.get(entry["missing"], Missing.NOT_STATED), at)
        out, err = _text(entry.get("stdout", "")), _text(entry.get("stderr", ""))
        return seen(CommandResult(entry.get("returncode", 0), out, err), at)

    def get(self, socket: str, target: str, timeout_s: float = 5.0) -> Reading[str]:  # noqa: ARG002
        """What the daemon answered when the host was recorded."""
        at = f"{socket} {target}"
        answer = self._sockets.get(socket, {}).get(target)
        if answer is None:
            return missing(self._unlisted, at)
        if isinstance(answer, dict) and set(answer) == {"missing"}:
            return missing(_REASONS.get(answer["missing"], Missing.NOT_STATED), at)
        return seen(answer if isinstance(answer, str) else json.dumps(answer), at)

    def nvml(self, timeout_s: float) -> Reading[dict[str, object]]:  # noqa: ARG002
        """What NVML answered when the host was recorded."""
        return self._library(self._nvml, "NVML")

    def dcmi(self, folders: tuple[str, ...], timeout_s: float) -> Reading[dict[str, object]]:  # noqa: ARG002
        """What DCMI answered when the host was recorded."""
        return self._library(self._dcmi, "DCMI")

    def _library(self, document: Any, at: str) -> Reading[dict[str, object]]:
        if document is None:
            return missing(self._unlisted, at)
        if set(document) == {"missing"}:
            return missing(_REASONS.get(document["missing"], Missing.NOT_STATED), at)
        return seen(document, at)

    def environ(self) -> dict[str, str]:
        """Environment variables of the recording that the allow-list has."""
        return allowed(self._env)

    def local_path(self, path: str) -> Optional[str]:
        """Path of the file inside the recording, or None where it has no content."""
        local = self._files + self._real(path)
        return local if os.path.isfile(local) else None

    def _real(self, path: str) -> str:
        try:
            return resolve(path, self._links.get) or "/"
        except OSError:
            return path

    def _exists(self, real: str) -> bool:
        if self._reason(real) is not None:
            return False
        return real in self._names or real in self._paths or os.path.isfile(self._files + real)

    def _reason(self, real: str) -> Optional[Missing]:
        """Why the path has no answer at all, if the recording says so."""
        stated = self._paths.get(real)
        return _REASONS.get(stated, Missing.NOT_STATED) if isinstance(stated, str) else None

    def _content_reason(self, real: str) -> Optional[Missing]:
        """Why the content of something that is there could not be read."""
        stated = self._paths.get(real)
        if isinstance(stated, dict) and "missing" in stated:
            return _REASONS.get(stated["missing"], Missing.NOT_STATED)
        return self._reason(real)

    def _folders(self) -> dict[str, set[str]]:
        """Names of each folder, from everything that the recording says to exist."""
        paths = [path for path, stated in self._paths.items() if not isinstance(stated, str)]
        for folder, _, names in os.walk(self._files):
            base = folder[len(self._files) :]
            paths += [f"{base}/{name}" for name in names]
        found: dict[str, set[str]] = {"/": set()}
        for path in [*paths, *self._links]:
            parent, _, name = path.rpartition("/")
            while name:
                found.setdefault(parent or "/", set()).add(name)
                parent, _, name = parent.rpartition("/")
        for path, stated in self._paths.items():
            listed = _listed(stated)
            if listed is not None:
                found[path] = set(listed)
        return found


def _listed(stated: Any) -> Optional[list[str]]:
    """The names that a folder was recorded with, alone or beside its stat."""
    names = stated.get("names") if isinstance(stated, dict) else stated
    return names if isinstance(names, list) else None


def _load(folder: str, name: str, default: Any) -> Any:
    path = os.path.join(folder, name)
    try:
        with open(path, encoding="utf-8") as file:
            loaded = json.load(file)
    except FileNotFoundError:
        return default
    except (OSError, ValueError, RecursionError) as error:
        raise UsageError(f"{path}: {error}", "mend the file, or record the host again") from error
    if default is not None and type(loaded) is not type(default):
        kind = type(default).__name__
        raise UsageError(f"{path}: expected a JSON {kind}", "see doctor/probes/recorded.py")
    return loaded


def _text(value: Any) -> str:
    return "".join(f"{line}\n" for line in value) if isinstance(value, list) else str(value)
