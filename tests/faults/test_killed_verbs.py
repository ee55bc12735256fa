"""SIGKILL at a random moment of the verbs that change nothing: nothing half-written, next run fine.

Once in CI with a few kills; `heavy` kills a thousand times. The seed of a run is printed.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from doctor.profile.lock import read_lock
from tests.faults.asking import OLD_DRIVER, ROOT, Person

SEED = 20261130
HOST = "H100x8,driver=550.54.15,python=3.11,ubuntu=22.04"


@dataclass(frozen=True)
class Verb:
    """A line ({} is the home), its right exits, and a check of what it wrote into a file."""

    line: str
    right: tuple[int, ...]
    writes: str = ""
    reads: Callable[[Path], object] = lambda path: json.loads(path.read_bytes())


VERBS = (
    Verb(f"check --facts {OLD_DRIVER} -o json={{}}/report.json", (1,), "report.json"),
    Verb(f"check --facts {OLD_DRIVER} -o sarif={{}}/report.sarif", (1,), "report.sarif"),
    Verb("check", (0, 1)),
    Verb(f"resolve vllm --host {HOST}", (0,)),
    Verb("fit Qwen/Qwen3-32B --gpu H100 --count 2", (0, 3)),
    Verb("matrix query vllm 0.20.0", (0,)),
    Verb("matrix diff 550.163.01 580.178.04", (0, 1)),
    Verb(f"scan {ROOT}/tests/binaries/samples", (0,)),
    Verb(f"diagnose {ROOT}/tests/intake/samples/log_vllm.txt", (1, 3)),
    Verb("plan llamacpp-cpu --user --lock {}/known.lock", (0, 1)),
    Verb("profile lock llamacpp-cpu --python 3.11 -o {}/stack.lock", (0,), "stack.lock", read_lock),
    Verb("record {}/recording", (0, 2)),
    Verb(f"fleet diff {ROOT}/tests/hosts {ROOT}/tests/hosts", (0,)),
)


def _kill(person: Person, words: list[str], after_s: float) -> bool:
    """Kill a run after that time, or sooner if it had ended: on a busy machine times differ."""
    for part in (1.0, 0.5, 0.25, 0.1):
        process = person.start(*words)
        time.sleep(after_s * part)
        process.kill()
        process.communicate()
        if process.returncode == -signal.SIGKILL:
            return True
    return False


@pytest.mark.parametrize(
    "kills",
    [pytest.param(13, marks=pytest.mark.slow), pytest.param(1000, marks=pytest.mark.heavy)],
)
def test_killed_at_any_moment(tmp_path: Path, kills: int) -> None:
    person, rnd = Person(tmp_path), random.Random(SEED)  # noqa: S311 - any moment will do
    if person.ask("profile", "lock", "llamacpp-cpu", "-o", f"{tmp_path}/known.lock").status:
        pytest.skip("no package index answers")
    seconds, killed = {}, 0
    for verb in VERBS:
        started = time.monotonic()
        answer_rightly(verb, person)
        seconds[verb] = time.monotonic() - started
    for number in range(kills):
        verb = VERBS[number % len(VERBS)]
        killed += _kill(person, words_of(verb, tmp_path), rnd.uniform(0, seconds[verb]))
        expect_whole(verb, tmp_path)
        if number % 100 == 99:
            print(f"{killed} of {number + 1} killed in their work, seed {SEED}", flush=True)
        if number % 20 == 0 or kills < 100:
            answer_rightly(verb, person)
    assert killed > kills / 3
    for verb in VERBS if kills > len(VERBS) else ():
        answer_rightly(verb, person)
    expect_nothing_left_running(tmp_path)


def words_of(verb: Verb, home: Path) -> list[str]:
    return verb.line.replace("{}", str(home)).split()


def answer_rightly(verb: Verb, person: Person) -> None:
    answer = person.ask(*words_of(verb, person.home))
    answer.expect_clear(*verb.right)
    expect_whole(verb, person.home)
    assert not verb.writes or (person.home / verb.writes).exists()


def expect_whole(verb: Verb, home: Path) -> None:
    """What was to be written is there whole, as it was before, or not at all."""
    written = home / verb.writes
    if verb.writes and written.exists():
        assert verb.reads(written)
    for path in (home / ".cache/llm-doctor").rglob("*.json"):
        seal, _, data = path.read_bytes().partition(b"\n")
        assert seal.split()[-1].decode() == hashlib.sha256(data).hexdigest()


def expect_nothing_left_running(home: Path) -> None:
    mark = f"HOME={home}".encode()
    until, left = time.monotonic() + 30, ["?"]
    while left and time.monotonic() < until:
        left = [pid for pid in os.listdir("/proc") if pid.isdigit() and _has(pid, mark)]
        time.sleep(0.2)
    assert not left


def _has(pid: str, mark: bytes) -> bool:
    try:
        return mark in Path("/proc", pid, "environ").read_bytes().split(b"\0")
    except OSError:
        return False
