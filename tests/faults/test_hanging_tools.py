"""Tools of drivers that hang: the check ends, says so, and passes nothing."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from doctor.diagnose import Request, diagnose
from doctor.facts import Missing, Reading, missing
from doctor.findings import Verdict
from doctor.matrix import load_matrix
from doctor.probes import commands
from doctor.probes.collect import collect
from doctor.probes.host import CommandResult
from doctor.probes.recorded import RecordedHost
from tests.fakes.hosts import HOSTS

pytestmark = pytest.mark.real

# How a tool may misbehave; each also ignores what may be ignored of signals.
FAULTS = {
    "sleeps": "sleep 600",
    "spins": "while :; do :; done",
    "has children": "sleep 600 & sleep 600 & wait",
    "left its session": "setsid sleep 600 & wait",
    "closed its output": "exec >&- 2>&-; sleep 600",
    "floods its output": "while :; do echo XXXXXXXXXXXXXXXXXXXXXXXXXXXXXX; done",
    "floods its errors": "while :; do echo YYYYYYYYYYYYYYYYYYYYYYYYYYYYYY; done >&2",
    "says half": "printf 'NVIDIA-SMI 5'; sleep 600",
}
TOOLS = ("nvidia-smi", "npu-smi", "docker", "podman", "modinfo", "systemctl", "dmesg")
SCALE = 0.05
# How long the tools of this process sleep, by which they are known.
MARK = f"6{os.getpid()}"


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path
    for pid in running(f"sleep\0{MARK}\0"):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def running(words: str) -> list[int]:
    """Processes that have these words in their command line."""
    found = []
    for entry in Path("/proc").iterdir():
        with suppress(OSError):
            if entry.name.isdigit() and words.encode() in (entry / "cmdline").read_bytes():
                found.append(int(entry.name))
    return found


def with_tools(folder: Path, fault: str) -> Path:
    """A folder of tools that all have that fault; they find the system's own behind it."""
    tools = folder / "tools"
    tools.mkdir()
    said = FAULTS[fault].replace("600", MARK)
    for name in TOOLS:
        (tools / name).write_text(f"#!/bin/sh\nPATH=/usr/bin:/bin\ntrap '' 1 2 15\n{said}\n")
        (tools / name).chmod(0o755)
    return tools


@pytest.mark.parametrize("fault", FAULTS)
def test_a_tool_that_hangs_is_timed_out_and_gone(folder: Path, fault: str) -> None:
    tools = with_tools(folder, fault)
    before = len(os.listdir("/proc/self/fd"))
    answer = commands.run(("nvidia-smi",), 0.3, str(tools))
    assert answer.missing is Missing.TIMED_OUT
    assert len(os.listdir("/proc/self/fd")) == before
    assert not running(f"{tools}/nvidia-smi")


class Hanging(RecordedHost):
    """A recorded host whose programs and driver libraries hang; its deadlines are shortened."""

    def __init__(self, recording: Path, tools: Path) -> None:
        super().__init__(str(recording))
        self._tools = str(tools)
        self.asked: list[str] = []

    def run(self, argv: tuple[str, ...], timeout_s: float = 10.0) -> Reading[CommandResult]:
        if argv[0] not in TOOLS:
            return super().run(argv, timeout_s)
        self.asked.append(argv[0])
        return commands.run(argv, timeout_s * SCALE, self._tools)

    def nvml(self, timeout_s: float) -> Reading[dict[str, object]]:
        return missing(Missing.TIMED_OUT, f"libnvidia-ml.so.1, {timeout_s} s")

    def dcmi(self, folders: tuple[str, ...], timeout_s: float) -> Reading[dict[str, object]]:
        # Were it to hang, npu-smi would not be asked at all.
        return missing(Missing.NOT_THERE, f"libdcmi.so in {folders}, {timeout_s} s")


@pytest.mark.parametrize("name", ["h200x8-fabricmanager", "ascend-910b3x8"])
@pytest.mark.parametrize("fault", ["sleeps", "floods its output"])
def test_a_host_whose_tools_hang_is_judged_and_not_passed(
    folder: Path, name: str, fault: str
) -> None:
    host = Hanging(HOSTS / name, with_tools(folder, fault))
    started = time.monotonic()
    facts = collect(host)
    seconds = time.monotonic() - started
    assert host.asked
    assert facts.notes == ()
    assert len(host.asked) < 12, host.asked
    print(f"{len(host.asked)} tools hung, {seconds / SCALE:.0f} s at full deadlines")
    verdict = diagnose(facts, load_matrix(), Request(engine="vllm")).verdict
    assert verdict in (Verdict.FAIL, Verdict.CANNOT_TELL)
