"""A tree of files with a root of its own: another system's disk, an image, a container."""

from __future__ import annotations

import errno
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Optional, TypeVar

from doctor.facts import Missing, Reading, missing, seen
from doctor.probes import files
from doctor.probes.host import TEXT_LIMIT, DiskUsage, FileStat, Host
from doctor.probes.still import StillHost

T = TypeVar("T")

_MOST_LINKS = 40
# Where a running kernel speaks. In a tree without one, what is there says nothing.
_LIVE = ("/proc", "/sys", "/dev", "/run", "/var/run")


class RootedHost(StillHost):
    """The system under `root` of another host, by default of this machine.

    No link leads out of it and nothing of it is run. `env` are the variables of the
    process that it is looked at for.
    """

    def __init__(
        self, root: str, host: Optional[Host] = None, env: Optional[Mapping[str, str]] = None
    ) -> None:
        super().__init__(env)
        self._host = host or _this_machine()
        self._root = root.rstrip("/")
        self._folders: dict[str, str] = {}
        # A whole host may be mounted, with its kernel's file systems.
        self._runs = True
        self._runs = self.stat("/proc/version").is_known

    def read_text(self, path: str, limit: int = TEXT_LIMIT) -> Reading[str]:
        """Text of a regular file, links followed within the root."""
        return self._ask(path, lambda place: self._host.read_text(place, limit))

    def list_dir(self, path: str) -> Reading[tuple[str, ...]]:
        """Sorted names in a folder."""
        return self._ask(path, self._host.list_dir)

    def real_path(self, path: str) -> Reading[str]:
        """The path within the root with all links resolved, if it exists."""
        return self._find(path)

    def link(self, path: str) -> Reading[str]:
        """Where a link of the tree leads, as it is written."""
        folder, _, name = path.rstrip("/").rpartition("/")
        return self._ask(folder or "/", lambda place: self._host.link(f"{place}/{name}"), path)

    def stat(self, path: str) -> Reading[FileStat]:
        """Stat of the file that the path leads to."""
        return self._ask(path, self._host.stat)

    def disk(self, path: str) -> Reading[DiskUsage]:
        """Size of a file system; not stated for a tree that is not at work."""
        if not self._runs:
            return missing(Missing.NOT_STATED, path)
        return self._ask(path, self._host.disk)

    def local_path(self, path: str) -> Optional[str]:
        """Where the file that the path leads to lies on this machine."""
        found = self._find(path)
        return None if found.value is None else self._host.local_path(self._root + found.value)

    def _ask(self, path: str, question: Callable[[str], Reading[T]], at: str = "") -> Reading[T]:
        """Ask the host below about the place that the path leads to."""
        found = self._find(path)
        if found.value is None:
            return missing(found.missing or Missing.NOT_READABLE, at or path)
        return replace(question(self._root + found.value), at=at or path)

    def _find(self, path: str) -> Reading[str]:
        """The path within the root that `path` leads to, free of links."""
        if _is_live(path) and not self._runs:
            return missing(Missing.NOT_STATED, path)
        try:
            return seen(self._resolve(path) or "/", path)
        except OSError as error:
            return missing(files.why(error), path)

    def _resolve(self, path: str) -> str:
        folder, _, name = path.rstrip("/").rpartition("/")
        if name in ("", ".", ".."):
            return resolve(path, self._target)
        # Most questions concern many files of few folders.
        if folder not in self._folders:
            self._folders[folder] = resolve(folder, self._target)
        return resolve(f"{self._folders[folder]}/{name}", self._target, self._folders[folder])

    def _target(self, path: str) -> Optional[str]:
        answer = self._host.link(self._root + path)
        if answer.value is None:
            raise OSError(_ERRORS.get(answer.missing or Missing.NOT_READABLE, errno.EIO), "", path)
        return answer.value or None


_ERRORS = {Missing.NOT_THERE: errno.ENOENT, Missing.NOT_PERMITTED: errno.EACCES}


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


def _this_machine() -> Host:
    from doctor.probes.local import LocalHost

    return LocalHost()
