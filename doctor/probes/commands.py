"""Programs of this machine: run without a shell, with a deadline, and left behind if they hang.

Only the system's own folders are searched, never $PATH: a program of an examined
environment must not be started.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
from typing import Optional

from doctor.facts import Missing, Reading, missing, seen
from doctor.probes import files
from doctor.probes.host import TEXT_LIMIT, CommandResult

SEARCH_PATH = ":".join(
    (
        "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "/usr/lib/wsl/lib:/snap/bin:/opt/bin:/run/current-system/sw/bin",
    )
)
_PASSED_ON = ("HOME", "XDG_RUNTIME_DIR")
_GRACE_S = 0.5


def run(argv: tuple[str, ...], timeout_s: float, search_path: str) -> Reading[CommandResult]:
    """Run a program with a deadline; `at` of the reading is the command line."""
    at = " ".join(argv)
    program = _find(argv[0], search_path)
    if program is None:
        return missing(Missing.NOT_THERE, at)
    try:
        return _finish(_Child(program, argv, search_path), time.monotonic() + timeout_s, at)
    except OSError as error:
        return missing(files.why(error), at)
    except ValueError:  # a NUL in an argument
        return missing(Missing.NOT_READABLE, at)


def _find(name: str, search_path: str) -> Optional[str]:
    folders = [""] if name.startswith("/") else [f"{p}/" for p in search_path.split(":") if p]
    for folder in folders:
        path = folder + name
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return path
    return None


def _finish(child: _Child, deadline: float, at: str) -> Reading[CommandResult]:
    try:
        in_time = child.read_until(deadline)
        returncode = child.wait(deadline if in_time else time.monotonic())
    except BaseException:  # Ctrl-C: the program has a group of its own and hears nothing of it
        child.kill()
        raise
    if returncode is None:
        child.kill()
        return missing(Missing.TIMED_OUT, at)
    return seen(CommandResult(returncode, child.text(0), child.text(1)), at)


class _Child:
    """A program in a process group of its own, its output collected up to the text limit."""

    def __init__(self, program: str, argv: tuple[str, ...], search_path: str) -> None:
        pairs = [os.pipe(), os.pipe()]
        writers = [pair[1] for pair in pairs]
        self._readers = [pair[0] for pair in pairs]
        self._output: dict[int, list[bytes]] = {reader: [] for reader in self._readers}
        self._room = dict.fromkeys(self._readers, TEXT_LIMIT)
        actions = [
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_DUP2, writers[0], 1),
            (os.POSIX_SPAWN_DUP2, writers[1], 2),
        ]
        try:
            self._pid = os.posix_spawn(
                program, argv, _environment(search_path), file_actions=actions, setpgroup=0
            )
        except (OSError, ValueError):
            self._close()
            raise
        finally:
            for writer in writers:
                os.close(writer)

    def read_until(self, deadline: float) -> bool:
        """Collect output until both pipes are closed; False if the deadline came first."""
        poll = select.poll()
        still_open = set(self._readers)
        for reader in still_open:
            poll.register(reader, select.POLLIN)
        while still_open:
            ready = poll.poll(max(0.0, (deadline - time.monotonic()) * 1000))
            if not ready:
                break
            for reader, _ in ready:
                chunk = os.read(reader, 1 << 16)
                if not chunk:
                    poll.unregister(reader)
                    still_open.discard(reader)
                # What goes beyond the limit is read, so that the program can end, and dropped.
                self._output[reader].append(chunk[: self._room[reader]])
                self._room[reader] -= len(self._output[reader][-1])
            if time.monotonic() > deadline:
                break
        self._close()
        return not still_open

    def wait(self, deadline: float) -> Optional[int]:
        """The exit status (negative: the signal), or None if it still runs at the deadline."""
        pause = 0.0005
        while True:
            pid, status = os.waitpid(self._pid, os.WNOHANG)
            if pid:
                return _returncode(status)
            if time.monotonic() >= deadline:
                return None
            time.sleep(pause)
            pause = min(pause * 2, 0.02)

    def kill(self) -> None:
        """Kill the group; a process stuck in the kernel is left behind."""
        with contextlib.suppress(OSError):
            os.killpg(self._pid, signal.SIGKILL)
        self.wait(time.monotonic() + _GRACE_S)

    def text(self, number: int) -> str:
        """Standard output (0) or standard error (1)."""
        return b"".join(self._output[self._readers[number]]).decode("utf-8", "replace")

    def _close(self) -> None:
        for reader in self._readers:
            os.close(reader)


def _returncode(status: int) -> int:
    """Like os.waitstatus_to_exitcode, which never raises here."""
    return -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


def _environment(search_path: str) -> dict[str, str]:
    kept = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    return {**kept, "LC_ALL": "C", "PATH": search_path}
