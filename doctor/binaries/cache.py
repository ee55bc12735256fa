"""Remember what was read of files, as long as they are the same.

An entry holds for one device, inode, size and both times in nanoseconds. The file is
trusted only if it is whole by the hash in its first line, this user's, and no other user can
write it or swap a folder on the way to it. What cannot be read or written is no fault.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from typing import Any, Optional

SCANNER = 4
"""Raised with every change to what is read or how it is written down."""

_MAX_BYTES = 64 << 20
_MAX_FILES = 400

Identity = tuple[int, int, int, int, int]


def identity_of(path: str) -> Optional[Identity]:
    """Device, inode, size, mtime and ctime in ns of a regular file or a folder; None without."""
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return None
    if not (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)):
        return None
    times = (status.st_mtime_ns, status.st_ctime_ns)
    return (status.st_dev, status.st_ino, status.st_size, *times)


def user_folder(variable: str, below: str) -> str:
    """This user's folder of a kind ("XDG_CACHE_HOME", ".cache"); "" if there is no usable home.

    What the variable states is ignored if it is relative: nothing is kept where one happens
    to stand. A home that is not there is not made, one that this user may not enter is none.
    """
    base = os.environ.get(variable, "")
    if base.startswith("/"):
        return base
    home = os.path.expanduser("~")
    usable = home.startswith("/") and home != "/" and os.access(f"{home}/", os.X_OK)
    return f"{home}/{below}" if usable else ""


def cache_folder() -> str:
    """This user's folder for what was read of binaries; "" if there is none."""
    base = user_folder("XDG_CACHE_HOME", ".cache")
    return f"{base}/llm-doctor/binaries" if base else ""


class Memory:
    """What is remembered of the files of one environment: JSON values by kind and path."""

    def __init__(self, folder: str, key: str) -> None:
        name = hashlib.sha256(key.encode("utf-8", "surrogateescape")).hexdigest()[:24]
        self._path = f"{folder}/{name}.json" if folder else ""
        self._known = _load(self._path) if self._path else {}
        self._kept: dict[str, dict[str, list[Any]]] = {}
        self._changed = False

    def recall(self, kind: str, path: str, identity: list[Any]) -> Any:
        """The value that was kept for a path with the same identity, or None."""
        entry = self._known.get(kind, {}).get(path)
        if not isinstance(entry, list) or len(entry) != 2 or entry[0] != identity:
            return None
        self._kept.setdefault(kind, {})[path] = entry
        return entry[1]

    def keep(self, kind: str, path: str, identity: list[Any], value: Any) -> None:
        """Keep a JSON value; what is neither recalled nor kept is forgotten on save."""
        self._kept.setdefault(kind, {})[path] = [identity, value]
        self._changed = True

    def save(self) -> None:
        """Write everything that was used, if something is new."""
        if self._changed and self._path:
            _store(self._path, {"scanner": SCANNER, "kinds": self._kept})


def _load(path: str) -> dict[str, Any]:
    if not is_trusted_place(os.path.dirname(path)):
        return {}
    try:
        with open(path, "rb", opener=_unfollowed) as file:
            status = os.fstat(file.fileno())
            is_whole_file = stat.S_ISREG(status.st_mode) and status.st_size <= _MAX_BYTES
            if not is_whole_file or not _is_own(status):
                return {}
            seal, _, data = file.read().partition(b"\n")
        loaded = json.loads(data) if seal == _seal(data) else None
    except (OSError, ValueError, RecursionError):
        return {}
    if not isinstance(loaded, dict) or loaded.get("scanner") != SCANNER:
        return {}
    kinds = loaded.get("kinds")
    if not isinstance(kinds, dict):
        return {}
    return {kind: table for kind, table in kinds.items() if isinstance(table, dict)}


def _unfollowed(path: str, _: int) -> int:
    return os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)


def _store(path: str, value: dict[str, Any]) -> None:
    folder = os.path.dirname(path)
    scratch = f"{path}.{os.getpid()}"
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        if not is_trusted_place(folder):
            return
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        data = json.dumps(value, separators=(",", ":")).encode()
        with os.fdopen(os.open(scratch, flags, 0o600), "wb") as file:
            file.write(_seal(data) + b"\n" + data)
        os.replace(scratch, path)
        _prune(folder)
    except OSError:
        _remove(scratch)


def _seal(data: bytes) -> bytes:
    return hashlib.sha256(data).hexdigest().encode()


def _prune(folder: str) -> None:
    """Keep the newest files: environments and containers come and go."""
    paths = [f"{folder}/{name}" for name in os.listdir(folder)]
    if len(paths) > _MAX_FILES:
        for path in sorted(paths, key=os.path.getmtime)[: len(paths) - _MAX_FILES // 2]:
            _remove(path)


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:
        return


def is_trusted_place(folder: str) -> bool:
    """True if no other user can put a file or a link anywhere on the way to `folder`."""
    try:
        place = os.path.realpath(folder)
        while True:
            status = os.stat(place)
            if status.st_uid not in (os.geteuid(), 0) or _others_can_write(status):
                return False
            if place == "/":
                return True
            place = os.path.dirname(place)
    except OSError:
        return False


def _others_can_write(status: os.stat_result) -> bool:
    """A sticky folder such as /tmp protects what is in it; so does a group of one's own."""
    if status.st_mode & stat.S_ISVTX:
        return False
    private = status.st_gid == os.getegid() and os.geteuid() != 0
    return bool(status.st_mode & (stat.S_IWOTH | (0 if private else stat.S_IWGRP)))


def _is_own(status: os.stat_result) -> bool:
    return status.st_uid == os.geteuid() and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
