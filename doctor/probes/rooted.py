"""A tree of files that is mounted or unpacked somewhere: another system's disk, an image."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from typing import Optional

from doctor.facts import Missing, Reading, missing, seen
from doctor.probes import files
from doctor.probes.host import TEXT_LIMIT, CommandResult, DiskUsage, FileStat

_MOST_LINKS = 40
# Where a running kernel speaks. In a tree without one, what is there says nothing.
_LIVE = ("/proc", "/sys", "/dev", "/run", "/var/run")


class RootedHost:
    """The system under `root`. No link leads out of it, nothing of it is run."""

    def __init__(self, root: str) -> None:
        self._root = os.path.realpath(root)
        self._folders: dict[str, str] = {}
        # A whole host may be mounted, with its kernel's file systems.
        self._runs = os.path.exists(f"{self._root}/proc/version")

    def read_text(self, path: str, limit: int = TEXT_LIMIT) -> Reading[str]:
        """Text of a regular file, links followed within the root."""
        found = self._find(path)
        if found.value is None:
            return files.relay(found)
        return files.read_text(self._root + found.value, path, limit)

    def list_dir(self, path: str) -> Reading[tuple[str, ...]]:
        """Sorted names in a folder."""
        found = self._find(path)
        if found.value is None:
            return files.relay(found)
        return files.list_dir(self._root + found.value, path)

    def real_path(self, path: str) -> Reading[str]:
        """The path with all links resolved, if it exists."""
        found = self._find(path)
        return seen(files.clean_name(found.value), path) if found.value is not None else found

    def stat(self, path: str) -> Reading[FileStat]:
        """Stat of the file that the path leads to."""
        found = self._find(path)
        if found.value is None:
            return files.relay(found)
        return files.stat(self._root + found.value, path)

    def disk(self, path: str) -> Reading[DiskUsage]:
        """Not stated: what surrounds the tree here is not what surrounds it at work."""
        return missing(Missing.NOT_STATED, path)

    def run(self, argv: tuple[str, ...], timeout_s: float = 10.0) -> Reading[CommandResult]:  # noqa: ARG002
        """Not stated: nothing of the tree is run."""
        return missing(Missing.NOT_STATED, argv[0])

    def get(self, socket: str, target: str, timeout_s: float = 5.0) -> Reading[str]:  # noqa: ARG002
        """Not stated: nothing of the tree answers."""
        return missing(Missing.NOT_STATED, socket)

    def nvml(self, timeout_s: float) -> Reading[dict[str, object]]:  # noqa: ARG002
        """Not stated: the tree has no driver."""
        return missing(Missing.NOT_STATED, "NVML")

    def environ(self) -> dict[str, str]:
        """Nothing."""
        return {}

    def local_path(self, path: str) -> Optional[str]:
        """Where the file that the path leads to lies on this machine."""
        found = self._find(path)
        return None if found.value is None else self._root + found.value

    def _find(self, path: str) -> Reading[str]:
        """The path within the root that `path` leads to, free of links."""
        if _is_live(path) and not self._runs:
            return missing(Missing.NOT_STATED, path)
        try:
            found = self._resolve(path)
            os.lstat(self._root + (found or "/"))
            return seen(found or "/", path)
        except OSError as error:
            return missing(files.why(error), path)
        except ValueError:
            return missing(Missing.NOT_THERE, path)

    def _resolve(self, path: str) -> str:
        folder, _, name = path.rstrip("/").rpartition("/")
        if name in ("", ".", ".."):
            return resolve(path, self._link)
        # Most questions concern many files of few folders.
        if folder not in self._folders:
            self._folders[folder] = resolve(folder, self._link)
        return resolve(f"{self._folders[folder]}/{name}", self._link, self._folders[folder])

    def _link(self, path: str) -> Optional[str]:
        try:
            return os.readlink(self._root + path)
        except OSError as error:
            if error.errno == errno.EINVAL:
                return None
            raise


def resolve(path: str, link: Callable[[str], Optional[str]], known: str = "") -> str:
    """The absolute path without links, "." and ".."; "" for the root.

    `link` tells where a path leads, or None if it is not a link; `known` is a folder at
    the start of `path` that is known to be free of links. Raises OSError for a loop.
    """
    real, todo = known, path[len(known) :].split("/")
    links = 0
    while todo:
        part = todo.pop(0)
        if part in ("", "."):
            continue
        if part == "..":
            real = real.rpartition("/")[0]
            continue
        target = link(f"{real}/{part}")
        if target is None:
            real = f"{real}/{part}"
            continue
        links += 1
        if links > _MOST_LINKS:
            raise OSError(errno.ELOOP, "too many links", path)
        real = "" if target.startswith("/") else real
        todo = target.split("/") + todo
    return real


def _is_live(path: str) -> bool:
    return any(path == folder or path.startswith(folder + "/") for folder in _LIVE)
