"""Facts of many machines without anything installed there: one file of probes, run and removed."""

from __future__ import annotations

import signal
import tempfile
from collections.abc import Iterable
from pathlib import Path

from doctor.provision.fleet_inventory import FleetHost
from doctor.provision.fleet_pool import Ended, Job
from doctor.provision.target import DOCKER, SSH

REMOTE_PYTHON = "python3"
_NOT_FOUND = ("executable file not found", "not found", "No such file or directory")
_AWAY = ("No such container", "is not running", "Cannot connect to the Docker daemon")
# Needs nothing but what a Python without its standard library has. The deadline holds there
# too: a lost connection must not leave it running.
_RUN = """\
import os, sys, time
limit = float(sys.argv[1])
base = os.environ.get("TMPDIR") or "/tmp"
folder = os.path.join(base, "doctor-" + os.urandom(12).hex())
os.mkdir(folder, 0o700)
path = os.path.join(folder, "doctor.pyz")
code = 1
try:
    with open(path, "wb") as file:
        file.write(sys.stdin.buffer.read())
    child = os.fork()
    if not child:
        try:
            os.setsid()
            os.execv(sys.executable, [sys.executable, "-I", "-S", path])
        finally:
            os._exit(127)
    until = time.monotonic() + limit
    while True:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            code = os.waitstatus_to_exitcode(status) if hasattr(os, "waitstatus_to_exitcode") \\
                else status >> 8
            break
        if time.monotonic() > until:
            os.killpg(child, 9)
            os.waitpid(child, 0)
            code = 124
            break
        time.sleep(0.05)
finally:
    if os.path.exists(path):
        os.unlink(path)
    os.rmdir(folder)
sys.exit(code if code >= 0 else 1)
"""


def archive() -> bytes:
    """The probes as one file."""
    from doctor.probes.zipapp import build

    with tempfile.TemporaryDirectory(prefix="doctor-probes-") as folder:
        path = Path(folder, "doctor.pyz")
        build(str(path))
        return path.read_bytes()


def fact_jobs(hosts: Iterable[FleetHost], limit_s: float) -> list[Job]:
    """One job a host that can be reached; each prints a snapshot."""
    program = archive()
    inside = max(limit_s - 1, 1)
    command = (REMOTE_PYTHON, "-I", "-c", _RUN, f"{inside:g}")
    return [
        Job(host.name, tuple(host.target.command(command)), program)
        for host in hosts
        if not host.fault
    ]


def fault_of(host: FleetHost, ended: Ended, limit_s: float) -> str:
    """Why a machine gave no facts, in words for its row; "" if it gave some."""
    said = ended.said
    last = said.splitlines()[-1] if said else ""
    if ended.missing:
        return f"{ended.missing} is not installed here"
    if ended.code is None or ended.code == 124:
        return f"no answer within {limit_s:g} s"
    if ended.code == -signal.SIGXFSZ:
        return "it said more than a snapshot has"
    if host.target.kind == SSH and ended.code == 255:
        return f"not reachable: {last}"
    if host.target.kind == DOCKER and any(word in said for word in _AWAY):
        return f"not reachable: {last}"
    if ended.code in (126, 127) and any(word in said for word in _NOT_FOUND):
        return "there is no python3: install the package python3"
    if ended.code == 3 and ended.out:
        return ""  # its one note says what this python3 lacks
    return f"the probes ended with {ended.code}: {last}" if ended.code else ""
