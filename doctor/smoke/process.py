"""A server's process: started with its log in a file, stopped as its engine wants it.

Nothing is left behind: not after Ctrl-C, not after a crash, not a worker of the engine.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import BinaryIO

from doctor.errors import DoctorError

LOG_LIMIT = 8 << 20
_TIED = Path(__file__).parent / "tied.py"
_POLL_S, _KILL_S = 0.02, 5.0


class ServerProcess:
    """One started server. `log_path` holds all that it prints."""

    def __init__(
        self, argv: Sequence[str], env: Mapping[str, str], log_path: Path, folder: Path
    ) -> None:
        """Start `argv` in `folder`. Raises DoctorError if it cannot be started."""
        self.log_path = log_path
        tied = [sys.executable, "-I", "-S", str(_TIED)] if sys.platform == "linux" else []
        log = _new_private_file(log_path)
        try:
            with log:
                self._child = subprocess.Popen(
                    [*tied, *argv],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    env=dict(env),
                    cwd=folder,
                    # Ctrl-C goes to doctor alone, which then stops the server in its own way.
                    start_new_session=True,
                )
        except OSError as fault:
            reason = fault.strerror or str(fault)
            raise DoctorError(f"cannot start {argv[0]}: {reason}", "is it installed?") from None

    @property
    def pid(self) -> int:
        """The number of the process, which is also that of its group and session."""
        return self._child.pid

    def exit_status(self) -> int | None:
        """How it ended (negative: by which signal), or None while it runs."""
        return self._child.poll()

    def log(self) -> str:
        """The log; of a very long one its beginning and its end."""
        with self.log_path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(0)
            head = file.read(LOG_LIMIT)
            if size > 2 * LOG_LIMIT:
                file.seek(size - LOG_LIMIT)
            return (head + file.read(LOG_LIMIT)).decode("utf-8", "replace")

    def stop(self, signal_name: str = "SIGTERM", grace_s: float = 30.0) -> str:
        """Ask it to end, wait, then kill what is left; say how it went."""
        began = time.monotonic()
        try:
            how = self._ask(signal_name, grace_s)
        finally:
            # Also after a second Ctrl-C.
            self._kill_rest()
        return f"{how} after {time.monotonic() - began:.1f} s"

    def _ask(self, signal_name: str, grace_s: float) -> str:
        if self.exit_status() is not None:
            return "had ended"
        self._child.send_signal(signal.Signals[signal_name])
        try:
            self._child.wait(grace_s)
        except subprocess.TimeoutExpired:
            return f"did not end within {grace_s:g} s of {signal_name}, killed"
        return f"ended by {signal_name}"

    def _kill_rest(self) -> None:
        until = time.monotonic() + _KILL_S
        while time.monotonic() < until:
            left = [pid for pid in session_members(self.pid) if pid != self.pid]
            if self.exit_status() is None:
                left.append(self.pid)
            if not left:
                return
            for pid in left:
                _kill(pid)
            time.sleep(_POLL_S)


def _new_private_file(path: Path) -> BinaryIO:
    """A file for this user's eyes: an engine may print anything."""
    try:
        return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb")
    except OSError as fault:
        raise DoctorError(
            f"cannot write the log {path}: {fault.strerror}", "name another folder with --keep-log"
        ) from None


def _kill(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def session_members(session: int) -> list[int]:
    """Living processes of a session: the children of a server, also after it has ended."""
    found = []
    for entry in Path("/proc").iterdir() if Path("/proc").is_dir() else ():
        if entry.name.isdecimal():
            try:
                # The name, in brackets, may hold anything; what follows does not.
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except (OSError, UnicodeDecodeError):
                continue
            if int(fields[3]) == session and fields[0] not in "ZX":
                found.append(int(entry.name))
    return found


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """Within it SIGTERM and SIGHUP act like Ctrl-C, so that what was started is stopped."""

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        # Signals are the main thread's business; it will stop this one.
        yield
        return
    before = {n: signal.signal(n, interrupt) for n in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def free_port(host: str = "127.0.0.1") -> int:
    """A port on which nothing listens at this moment."""
    import socket

    with socket.socket() as probe:
        probe.bind((host, 0))
        port: int = probe.getsockname()[1]
        return port
