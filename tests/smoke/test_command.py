"""`doctor smoke` as people run it: exit codes, what is printed, what is left behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from doctor.cli.main import run
from doctor.smoke.process import session_members
from tests.smoke.standin import StandIn

pytestmark = pytest.mark.real
STANDIN = Path(__file__).parent / "standin.py"
KEY = "sk-canary-7f3a"
# Takes llama-server's place: its port, and a fault from the environment.
FAKE = f"""#!{sys.executable}
import os, sys
if "--version" in sys.argv:
    sys.exit(print("version: 12000 (abc)"))
port = sys.argv[sys.argv.index("--port") + 1]
os.execv(sys.executable, [sys.executable, {str(STANDIN)!r}, port, os.environ["STANDIN_FAULT"]])
"""


@dataclass(frozen=True)
class Done:
    """What one run of the command came to."""

    returncode: int
    stdout: str
    stderr: str


Doctor = Callable[..., Done]


@pytest.fixture
def doctor(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Doctor:
    """Runs `doctor smoke` in this process, with variables of the environment by keyword."""

    def command(*args: str, **env: str) -> Done:
        for name, value in env.items():
            monkeypatch.setenv(name, value)
        code = run(["smoke", *args])
        seen = capsys.readouterr()
        return Done(code, seen.out, seen.err)

    return command


@pytest.fixture
def fake_engine(tmp_path: Path) -> Path:
    """A folder for PATH with a llama-server that is our stand-in."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "llama-server").write_text(FAKE)
    (folder / "llama-server").chmod(0o755)
    return folder


@pytest.fixture
def launched(fake_engine: Path, doctor: Doctor) -> Doctor:
    """Starts the stand-in with a fault as if it were llama-server."""

    def command(fault: str, *args: str) -> Done:
        path = f"{fake_engine}:{os.environ['PATH']}"
        return doctor("--engine", "llama.cpp", *args, PATH=path, STANDIN_FAULT=fault)

    return command


# -- starting an engine ----------------------------------------------------------------------


def test_without_arguments_llama_is_proven() -> None:
    pytest.importorskip("xllamacpp")
    argv = [sys.executable, "-m", "doctor", "smoke", "--format", "json"]
    done = subprocess.run(argv, capture_output=True, timeout=60, check=False)
    report = json.loads(done.stdout)
    assert done.returncode == 0, report
    assert report["schema"] == "doctor/smoke/v1"
    assert report["verdict"] == "proven"
    assert {step["state"] for step in report["steps"]} == {"passed"}


def test_a_command_on_path_is_started_and_stopped(launched: Doctor, tmp_path: Path) -> None:
    done = launched("", "--format", "json", "--keep-log", str(tmp_path / "logs"))
    report = json.loads(done.stdout)
    # The stand-in has no counters of llama.cpp, which is no fault.
    assert done.returncode == 0, report
    assert report["target"]["version"] == "b12000"
    assert report["stopped"].startswith("ended by SIGINT")
    assert Path(report["log"]).read_text().startswith("ready")


# Fault → exit code, name of the fault, cause that the log speaks of.
TOO_SLOW = ("never-listens", "never-ready")
STARTED = {
    "dies-at-start": (4, "dead-process", "model-not-supported-by-version"),
    "never-listens": (4, "too-slow-to-start", ""),
    "never-ready": (4, "too-slow-to-start", ""),
    "crash": (1, "dead-process", "insufficient-memory-weights"),
    "crash-later": (1, "dead-process", "insufficient-memory-weights"),
    "mute": (1, "mute", ""),
    "wrong-logprobs": (1, "wrong-logprobs", ""),
}


@pytest.mark.parametrize("fault", STARTED)
def test_faults_of_a_started_engine(fault: str, launched: Doctor, tmp_path: Path) -> None:
    # A limit that is not reached has room for a busy machine; what never answers uses it up.
    limit = {"mute": "6"}.get(fault, "0.9" if fault in TOO_SLOW else "60")
    done = launched(fault, "--timeout", limit, "--format", "json", "--keep-log", str(tmp_path))
    report = json.loads(done.stdout)
    found = report["fault"]
    seen = (done.returncode, found["name"], found["log"]["cause"])
    assert seen == STARTED[fault], report
    assert found["meaning"]
    assert "Interrupt" not in found["log"]["line"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_interrupted_it_leaves_no_process(number: signal.Signals, fake_engine: Path) -> None:
    env = {**os.environ, "PATH": f"{fake_engine}:{os.environ['PATH']}"}
    argv = [sys.executable, "-m", "doctor", "smoke", "--engine", "llama.cpp"]
    with subprocess.Popen(
        argv, stderr=subprocess.PIPE, text=True, env={**env, "STANDIN_FAULT": "never-listens"}
    ) as child:
        assert child.stderr is not None
        pid = int(child.stderr.readline().rsplit("pid ", 1)[1])
        # The word comes when it is started; it must also be deep in its waiting.
        time.sleep(0.3)
        child.send_signal(number)
        assert child.wait(20) == 130
    assert session_members(pid) == []
    assert not list(Path("/tmp").glob(f"doctor-smoke-*/*-{child.pid}.log"))


def test_what_cannot_be_started(doctor: Doctor) -> None:
    done = doctor("--engine", "sglang", "--python", sys.prefix)
    assert done.returncode == 4
    assert "sglang is not in" in done.stderr
    done = doctor("--engine", "llama.cpp", PATH="/nowhere")
    assert done.returncode == 4
    assert "llama-server is not on PATH" in done.stderr


def test_the_command_is_shown_and_not_run(launched: Doctor) -> None:
    done = launched("", "--print-command", "--arg", "tp=2")
    assert done.returncode == 4
    assert "tensor_parallel_size" in done.stderr
    done = launched("", "--print-command", "--arg", "port=8123")
    assert done.returncode == 0
    assert done.stdout.startswith("llama-server --model /")
    assert "--port 8123" in done.stdout


# -- a server that runs ----------------------------------------------------------------------


@pytest.mark.parametrize(("fault", "code"), [("", 0), ("early-eos", 1), ("html", 1)])
def test_exit_code_of_a_url(fault: str, code: int, doctor: Doctor) -> None:
    with StandIn(fault) as url:
        done = doctor(f"{url}/v1/", "--timeout", "3")
    assert done.returncode == code, done.stdout
    assert ("proven" in done.stdout) is True
    assert ("not proven" in done.stdout) is bool(code)


def test_nobody_there(doctor: Doctor) -> None:
    done = doctor("http://127.0.0.1:1", "--timeout", "0.3")
    assert done.returncode == 1
    assert "port-closed" in done.stdout


def test_a_key_is_sent_and_never_shown(tmp_path: Path, doctor: Doctor) -> None:
    file = tmp_path / "key"
    file.write_text(f"{KEY}\n")
    with StandIn("wants-key") as url:
        refused = doctor(url, "--timeout", "3")
        by_env = doctor(url, "--api-key", "env:SMOKE_KEY", SMOKE_KEY=KEY)
        by_file = doctor(url, "--api-key", f"file:{file}", "--format", "json")
        wrong = doctor(url, "--api-key", "env:SMOKE_KEY", SMOKE_KEY="sk-other-123")
    assert (refused.returncode, by_env.returncode, by_file.returncode) == (1, 0, 0)
    assert "unauthorized" in refused.stdout
    # The server repeats the key in its error.
    assert wrong.returncode == 1
    for done in (by_env, by_file, wrong):
        assert KEY not in done.stdout + done.stderr
        assert "sk-other-123" not in done.stdout + done.stderr


@pytest.mark.parametrize(
    "args",
    [
        ("--api-key", KEY),
        ("--api-key", "env:NOT_SET_ANYWHERE"),
        ("--api-key", "file:/nowhere"),
        ("--arg", "nonsense"),
        ("--arg", "api_key=x"),
        ("--engine", "turbo"),
        ("--engine", "vllm==x y"),
        ("--model", "known-answer-q9"),
        ("ftp://127.0.0.1",),
        ("http://127.0.0.1:1", "--arg", "tp=2"),
        ("--expect", "/nowhere"),
        ("--profile", "nothing"),
        ("--timeout", "0"),
    ],
)
def test_usage_errors_are_one_line(args: tuple[str, ...], doctor: Doctor) -> None:
    done = doctor(*args)
    assert (done.returncode, done.stdout) == (2, "")
    assert KEY not in done.stderr
    assert "Traceback" not in done.stderr


def test_missing_extra_is_one_line(monkeypatch: pytest.MonkeyPatch, doctor: Doctor) -> None:
    monkeypatch.setitem(sys.modules, "aiohttp", None)
    done = doctor()
    assert done.returncode == 4
    assert "pip install 'llm-doctor[smoke]'" in done.stderr
    assert "Traceback" not in done.stderr


def test_figures_are_recorded_and_compared(tmp_path: Path, doctor: Doctor) -> None:
    file = tmp_path / "figures.json"
    with StandIn("own") as url:
        assert doctor(url, "--record", str(file)).returncode == 0
        same = doctor(url, "--expect", str(file), "--format", "json")
        assert same.returncode == 0
        figures = json.loads(file.read_text())
        file.write_text(json.dumps({**figures, "own": figures["own"] - 1}))
        other = doctor(url, "--expect", str(file))
    assert other.returncode == 1
    assert "outside-band" in other.stdout


def test_figures_that_were_not_taken_are_missed(tmp_path: Path, doctor: Doctor) -> None:
    file = tmp_path / "figures.json"
    with StandIn("") as url:
        done = doctor(url, "--record", str(file))
    assert "none are recorded or compared" in done.stderr
    assert not file.exists()
