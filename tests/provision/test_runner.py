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
import yaml
from jinja2 import Environment

pytestmark = pytest.mark.real

RUNNER = Path(__file__).parents[2] / "playbooks/roles/service/files/run_service.py"


def run(verb: str, config: Path) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-I", str(RUNNER), verb, str(config)]
    return subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)


def settings(tmp_path: Path, code: str) -> str:
    row = {
        "argv": [sys.executable, "-c", code],
        "env": {},
        "folder": str(tmp_path),
        "home": str(tmp_path),
        "log": str(tmp_path / "log/engine.log"),
        "restart": "always",
        "stop_signal": "SIGTERM",
        "stop_s": 2,
    }
    return json.dumps(row)


@pytest.fixture
def config(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "service.json"
    path.write_text(settings(tmp_path, "import time; time.sleep(600)"))
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


def _wait_for(config: Path, state: str, seconds: float) -> str:
    until = time.monotonic() + seconds
    while (found := run("compare", config).stdout.strip()) != state:
        if time.monotonic() > until:
            break
        time.sleep(0.05)
    return found


def test_the_pause_of_an_engine_that_fails_is_not_waited_for(config: Path) -> None:
    good = config.read_text()
    config.write_text(settings(config.parent, "raise SystemExit(1)"))
    assert run("start", config).stdout.strip() == "changed"
    time.sleep(8)  # the third failure is behind it: the next start is 4 to 8 s away
    config.write_text(good)
    assert run("start", config).stdout == "", "a watcher is there, in its pause"
    assert run("restart", config).stdout.strip() == "changed"
    assert _wait_for(config, "same", 3) == "same"


@pytest.mark.parametrize(
    ("running", "is_started_again"),
    [("same", False), ("other", True), ("none", True), (None, False)],
)
def test_a_role_starts_again_what_does_not_run_just_so(
    running: str | None, is_started_again: bool
) -> None:
    template = yaml.safe_load((RUNNER.parents[1] / "vars/main.yml").read_text())["service_other"]
    told = {} if running is None else {"stdout": running}
    rendered = Environment(autoescape=True).from_string(template)
    answer = rendered.render(service_again=False, service_running=told)
    assert answer == str(is_started_again)
