"""Servers of our own: they end as they should, and nothing of them is left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from doctor.errors import DoctorError
from doctor.smoke.process import ServerProcess, free_port, session_members

pytestmark = pytest.mark.real
STANDIN = str(Path(__file__).parent / "standin.py")
# A server with a worker that hears no signal, as engines have them.
FAMILY = """
import signal, subprocess, sys, time
subprocess.Popen([sys.executable, "-c", "import signal, time;"
    "signal.signal(signal.SIGTERM, signal.SIG_IGN); print('worker', flush=True); time.sleep(60)"])
print("parent", flush=True)
time.sleep(60)
"""


def started(folder: Path, *argv: str) -> ServerProcess:
    return ServerProcess([sys.executable, *argv], dict(os.environ), folder / "log", folder)


def until(server: ServerProcess, word: str) -> None:
    for _ in range(500):
        if word in server.log():
            return
        time.sleep(0.01)
    raise AssertionError(server.log())


@pytest.fixture
def standin(tmp_path: Path) -> Iterator[ServerProcess]:
    server = started(tmp_path, STANDIN, str(free_port()))
    until(server, "ready")
    yield server
    server.stop("SIGKILL", 1)


def test_it_ends_when_asked(standin: ServerProcess) -> None:
    assert standin.exit_status() is None
    assert standin.stop("SIGTERM", 5).startswith("ended by SIGTERM")
    assert standin.exit_status() == -signal.SIGTERM
    assert session_members(standin.pid) == []


def test_it_is_killed_if_it_does_not_end(tmp_path: Path) -> None:
    server = started(tmp_path, STANDIN, str(free_port()), "ignores-sigterm")
    until(server, "ready")
    assert "killed" in server.stop("SIGTERM", 0.2)
    assert server.exit_status() == -signal.SIGKILL


def test_its_workers_go_too(tmp_path: Path) -> None:
    server = started(tmp_path, "-c", FAMILY)
    until(server, "worker")
    assert len(session_members(server.pid)) == 2
    server.stop("SIGTERM", 5)
    assert session_members(server.pid) == []


def test_it_goes_when_its_starter_is_killed(tmp_path: Path) -> None:
    starter = (
        "import os, sys, time; from pathlib import Path;"
        "from doctor.smoke.process import ServerProcess;"
        "folder = Path(sys.argv[1]);"
        "s = ServerProcess([sys.executable, '-c', 'import time; time.sleep(60)'],"
        "    dict(os.environ), folder / 'log', folder);"
        "time.sleep(0.2); print(s.pid, flush=True); time.sleep(60)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", starter, str(tmp_path)], stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        pid = int(child.stdout.readline())
        assert session_members(pid) == [pid]
        child.kill()
    for _ in range(200):
        if not session_members(pid):
            return
        time.sleep(0.01)
    raise AssertionError("it lives on")


def test_log_is_private_and_whole(standin: ServerProcess) -> None:
    assert standin.log_path.stat().st_mode & 0o777 == 0o600
    assert standin.log() == "ready\n"


def test_what_is_not_there(tmp_path: Path) -> None:
    server = ServerProcess(["/nowhere/llama-server"], {}, tmp_path / "log", tmp_path)
    until(server, "cannot run /nowhere/llama-server")
    server.stop("SIGTERM", 2)


def test_a_log_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("")
    with pytest.raises(DoctorError, match="log"):
        started(tmp_path, "-c", "pass")
