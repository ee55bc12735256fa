"""`doctor bench` as people call it: as a process, against a real server."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from doctor.cli.main import run as run_here
from tests.smoke.timed import Profile, Timed

pytestmark = pytest.mark.real
QUICK = ("--concurrency", "2", "--lengths", "20x5", "--requests", "20", "--warm-up", "1")
MOST_MIB = 150
# A child's high-water mark starts at its parent's: the parent that counts must be small.
PEAK = """import resource, subprocess, sys
subprocess.run(sys.argv[1:])
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, file=sys.stderr)"""


def start(url: str, *words: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "doctor", "bench", url, *words]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def run(url: str, *words: str) -> tuple[int, str, str]:
    child = start(url, *words)
    out, err = child.communicate(timeout=120)
    return child.returncode, out, err


def test_a_run_with_all_its_files(tmp_path: Path) -> None:
    files = [f"{form}={tmp_path}/x.{form}" for form in ("json", "html", "markdown")]
    with Timed() as server:
        code, out, err = run(server.url, *QUICK, *(w for file in files for w in ("-o", file)))
    assert code == 0, err
    assert "2 at once" in out
    assert "Traceback" not in err
    assert json.loads((tmp_path / "x.json").read_text())["loads"][0]["output_tokens"] == 100
    assert "<svg" in (tmp_path / "x.html").read_text()


def test_worse_than_the_baseline_is_exit_1(tmp_path: Path) -> None:
    before = f"{tmp_path}/before.json"
    with Timed(Profile(ttft=0.01)) as server:
        assert run(server.url, *QUICK, "-o", f"json={before}")[0] == 0
    with Timed(Profile(ttft=0.08)) as server:
        code, out, _ = run(server.url, *QUICK, "--baseline", before)
    assert code == 1
    assert "worse than the baseline" in out


def test_a_limit_that_is_missed_is_exit_1() -> None:
    with Timed(Profile(ttft=0.05)) as server:
        code, out, _ = run(server.url, *QUICK, "--ttft-limit", "0.02")
    assert code == 1
    assert "FAIL wait for the first token" in out


@pytest.mark.parametrize(
    "number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)]
)
def test_an_interrupt_prints_what_there_is(number: signal.Signals) -> None:
    with Timed(Profile(ttft=0.02)) as server:
        child = start(server.url, "--concurrency", "2", "--lengths", "20x5", "--requests", "9999")
        assert child.stderr
        until = time.monotonic() + 30
        while len(server.state.served) < 25 and time.monotonic() < until:
            time.sleep(0.02)
        child.send_signal(number)
        out, err = child.communicate(timeout=10)
    assert child.returncode == 130, err
    assert "2 at once" in out
    assert "interrupted: this is what there was" in out
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("127.0.0.1",), 2, "no URL of a server"),
        (("http://127.0.0.1:1",), 4, "connection-refused"),
        (("http://127.0.0.1:1", "--requests", "0"), 2, "range"),
        (("http://127.0.0.1:1", "--duration", "inf"), 2, "range"),
        (("http://127.0.0.1:1", "--max-time", "1e9"), 2, "range"),
        (("http://127.0.0.1:1", "--api-key", "sk-canary"), 2, "a reference"),
        (("http://127.0.0.1:1", "--baseline", "/nowhere"), 2, "cannot read"),
    ],
)
def test_what_cannot_be_is_one_line(
    words: tuple[str, ...], code: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    found = run_here(["bench", *words])
    out, err = capsys.readouterr()
    assert (found, out) == (code, "")
    assert said in err
    assert "Traceback" not in err
    assert "canary" not in err.replace(words[-1], "")


@pytest.mark.slow
def test_memory_with_256_streams() -> None:
    server = Path(__file__).parent / "timed.py"
    words = [sys.executable, str(server), "0", "ttft=0.3", "tpot=0.1", "slots=256"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as served:
        assert served.stdout
        url = served.stdout.readline().strip()
        command = [sys.executable, "-c", PEAK, sys.executable, "-m", "doctor", "bench", url,
                   "--concurrency", "256", "--lengths", "256x40", "--requests", "512",
                   "--format", "json"]  # fmt: skip
        with subprocess.Popen(command, stdout=-1, stderr=-1, text=True) as child:
            out, err = child.communicate(timeout=120)
        served.kill()
    (load,) = json.loads(out)["loads"]
    assert load["succeeded"] == 512, err
    assert load["gauges"]["gauges"]["running"]["high"] > 200
    peak_mib = int(err.splitlines()[-1]) / 1024
    assert peak_mib < MOST_MIB
