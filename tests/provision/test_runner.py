"""The runner that keeps an engine running without systemd, as a program of its own."""

from __future__ import annotations

import fcntl
import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.real

RUNNER = Path(__file__).parents[2] / "playbooks/roles/service/files/run_service.py"


def run(verb: str, config: Path) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-I", str(RUNNER), verb, str(config)]
    return subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)


@pytest.fixture
def config(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "service.json"
    row = {
        "argv": [sys.executable, "-c", "import time; time.sleep(600)"],
        "env": {},
        "folder": str(tmp_path),
        "home": str(tmp_path),
        "log": str(tmp_path / "log/engine.log"),
        "restart": "always",
        "stop_signal": "SIGTERM",
        "stop_s": 2,
    }
    path.write_text(json.dumps(row))
    yield path
    run("stop", path)


def _ask_long(lock: Path, began: threading.Event, seconds: float) -> None:
    """Ask for the watcher as a process does that loses its turn in the middle of it."""
    with lock.open("a+") as file:
        fcntl.flock(file, fcntl.LOCK_SH)
        began.set()
        time.sleep(seconds)


def test_who_asks_for_the_watcher_does_not_keep_it_from_starting(config: Path) -> None:
    lock = config.parent / "run/watch.lock"
    lock.parent.mkdir()
    began = threading.Event()
    asker = threading.Thread(target=_ask_long, args=(lock, began, 1.5))
    asker.start()
    began.wait(10)
    answer = run("start", config)
    asker.join()
    assert answer.stdout.strip() == "changed", answer.stderr
    assert run("status", config).returncode == 0


def test_a_second_watcher_leaves_the_first_alone(config: Path) -> None:
    assert run("start", config).stdout.strip() == "changed"
    first = run("status", config).stdout
    assert run("watch", config).returncode == 0
    assert run("start", config).stdout == ""
    assert run("status", config).stdout == first
    assert run("compare", config).stdout.strip() == "same"
    assert run("stop", config).stdout.strip() == "changed"
    assert run("compare", config).stdout.strip() == "none"
