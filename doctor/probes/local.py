"""This machine."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Optional

from doctor.facts import Missing, Reading, missing, seen
from doctor.probes import commands, files, mounts, sockets
from doctor.probes.environment import allowed
from doctor.probes.host import TEXT_LIMIT, CommandResult, DiskUsage, FileStat


class LocalHost:
    """This machine, asked without changing it; `search_path` is where programs are looked for.

    What lies on the mounts that `silent` names is not touched: they do not answer.
    """

    def __init__(
        self, search_path: str = commands.SEARCH_PATH, silent: Callable[[], tuple[str, ...]] = tuple
    ) -> None:
        self._search_path = search_path
        self._silent = silent

    def _unanswered(self, path: str) -> Optional[Reading[Any]]:
        """Why a path is not touched: its file system does not answer. None if it does."""
        silent = self._silent()
        if not silent:
            return None
        mount = mounts.silent_part(os.path.abspath(path), silent)
        return missing(Missing.TIMED_OUT, f"{path}: {mount} does not answer") if mount else None

    def read_text(self, path: str, limit: int = TEXT_LIMIT) -> Reading[str]:
        """Text of a regular file, links followed on purpose."""
        unanswered = self._unanswered(path)
        if unanswered is not None:
            return unanswered
        real = os.path.realpath(path) if os.path.islink(path) else path
        return files.read_text(real, path, limit, path)

    def list_dir(self, path: str) -> Reading[tuple[str, ...]]:
        """Sorted names in a folder."""
        return self._unanswered(path) or files.list_dir(path, path)

    def real_path(self, path: str) -> Reading[str]:
        """The path with all links resolved, if it exists."""
        unanswered = self._unanswered(path)
        if unanswered is not None:
            return unanswered
        try:
            os.stat(path)
            return seen(files.clean_name(os.path.realpath(path)), path)
        except OSError as error:
            return missing(files.why(error), path)
        except ValueError:
            return missing(Missing.NOT_THERE, path)

    def link(self, path: str) -> Reading[str]:
        """Where a link leads, as it is written."""
        return self._unanswered(path) or files.link(path, path)

    def stat(self, path: str) -> Reading[FileStat]:
        """Stat of the file that the path leads to."""
        return self._unanswered(path) or files.stat(path, path)

    def disk(self, path: str) -> Reading[DiskUsage]:
        """Size of the file system that holds `path`."""
        return self._unanswered(path) or files.disk(path, path)

    def run(self, argv: tuple[str, ...], timeout_s: float = 10.0) -> Reading[CommandResult]:
        """Run a program of the search path with a deadline and a reduced environment."""
        return commands.run(argv, timeout_s, self._search_path)

    def get(self, socket: str, target: str, timeout_s: float = 5.0) -> Reading[str]:
        """Body of an HTTP GET over a unix socket."""
        return sockets.get(socket, target, timeout_s)

    def nvml(self, timeout_s: float) -> Reading[dict[str, object]]:
        """Raw NVML answers, read in a child with a deadline."""
        from doctor.probes import nvml

        return nvml.query(timeout_s)

    def dcmi(self, folders: tuple[str, ...], timeout_s: float) -> Reading[dict[str, object]]:
        """Raw DCMI answers, read in a child with a deadline."""
        from doctor.probes import dcmi

        return dcmi.query(folders, timeout_s)

    def environ(self) -> dict[str, str]:
        """Environment variables of the allow-list; PWD is where this process really is."""
        return {**_environment(), **_working_folder()}

    def local_path(self, path: str) -> Optional[str]:
        """The path itself, or None where nothing answers."""
        return None if self._unanswered(path) else path


@lru_cache(maxsize=1)
def _silent_mounts() -> tuple[str, ...]:
    return mounts.silent_mounts()


def this_machine() -> LocalHost:
    """This machine, its mounts tried first: one that is dead would hold this process for ever."""
    return LocalHost(silent=_silent_mounts)


def _environment() -> dict[str, str]:
    # What is not kept is not decoded: a score of probes ask for the rest.
    kept = allowed(os.environ)
    return {files.clean_name(k): files.clean_name(v) for k, v in kept.items()}


def _working_folder() -> dict[str, str]:
    try:
        return {"PWD": files.clean_name(os.getcwd())}
    except OSError:  # the folder is gone
        return {}
