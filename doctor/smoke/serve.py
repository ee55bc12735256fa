"""Start an engine's server for a smoke test, and stop it, whatever happens in between."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from doctor.errors import UsageError
from doctor.matrix import Matrix
from doctor.smoke.ask import Ask
from doctor.smoke.cause import LogCause, cause_of
from doctor.smoke.launch import LaunchError
from doctor.smoke.prepare import HOST, Prepared, environment
from doctor.smoke.process import ServerProcess
from doctor.smoke.secret import Secret
from doctor.smoke.target import Target

_LAST_LINE = 120
_DEVICE = re.compile(r"^device: (.{1,200})$", re.MULTILINE)


@dataclass
class Served:
    """A server that was started; `stopped` says how it ended, once it has.

    `said` is its log up to the moment at which it was told to stop.
    """

    prepared: Prepared
    target: Target
    process: ServerProcess
    folder: Path
    stopped: str = ""
    said: str | None = None

    @property
    def command(self) -> tuple[str, ...]:
        """What was started."""
        return self.prepared.plan.argv

    @property
    def device(self) -> str:
        """Where it computes, as far as that is known."""
        engine = self.prepared.plan.row.engine
        if engine.endswith("-cpu"):
            return "the CPU"
        match = _DEVICE.search(self.process.log())
        return match[1] if match else ""

    def log_cause(self, matrix: Matrix, key: Secret) -> LogCause:
        """What its log says went wrong."""
        engine = self.prepared.plan.row.engine
        name = "llama.cpp" if engine == "xllamacpp" else engine
        return cause_of(key.hide(self.said or ""), name, self.prepared.place.version, matrix)

    def teller(self, say: Callable[[str], None], key: Secret) -> Callable[[str], None]:
        """Says something with the last line of the log, so that one sees what it is doing."""

        def tell(text: str) -> None:
            last = self.process.log().rstrip().rpartition("\n")[2][:_LAST_LINE]
            say(key.hide(f"{text} | {last}" if last else text))

        return tell

    def kept_log(self, keep: bool) -> str:
        """Where its log is; if it is in our folder and not wanted, it is thrown away."""
        inside = self.process.log_path.parent == self.folder
        if not (keep and inside):
            shutil.rmtree(self.folder, ignore_errors=True)
        return str(self.process.log_path) if keep or not inside else ""


@contextmanager
def serving(prepared: Prepared, ask: Ask, say: Callable[[str], None]) -> Iterator[Served]:
    """Start a server that was planned; stop it at the end.

    Raises UsageError or LaunchError if it cannot be started.
    """
    row = prepared.plan.row
    folder = Path(tempfile.mkdtemp(prefix="doctor-smoke-"))
    try:
        served = _start(prepared, ask, folder)
        say(f"started {row.engine} {prepared.place.version or ''}, pid {served.process.pid}")
        try:
            yield served
            # What it says when it is stopped is not why it failed.
            if served.process.exit_status() is None:
                served.said = served.process.log()
        finally:
            served.stopped = served.process.stop(row.stop_signal, row.stop_s)
            if served.said is None:
                served.said = served.process.log()
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def _start(prepared: Prepared, ask: Ask, folder: Path) -> Served:
    env = environment(prepared, ask, folder)
    program = shutil.which(prepared.plan.argv[0], path=env.get("PATH", os.defpath))
    if program is None:
        raise LaunchError(f"{prepared.plan.argv[0]} is not there", "is it installed?")
    log_path = _log_path(ask.keep_log, prepared.plan.row.engine, folder)
    argv = (program, *prepared.plan.argv[1:])
    process = ServerProcess(argv, env, log_path, folder)
    target = Target(f"http://{HOST}:{prepared.port}", prepared.model.name, process)
    return Served(prepared, target, process, folder)


def _log_path(keep_log: str, engine: str, folder: Path) -> Path:
    name = f"{engine}-{datetime.now():%Y%m%d-%H%M%S}-{os.getpid()}.log"
    if not keep_log:
        return folder / name
    try:
        Path(keep_log).mkdir(parents=True, exist_ok=True)
    except OSError as fault:
        raise UsageError(
            f"--keep-log {keep_log[:200]}: {fault.strerror}", "name another folder"
        ) from None
    return Path(keep_log).absolute() / name
