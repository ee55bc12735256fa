"""Several doctors at once, an index that is dead, a clock that jumps."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from tests.faults.asking import OLD_DRIVER, Person

pytestmark = pytest.mark.slow


def test_eight_at_once_with_one_cache_and_one_report(tmp_path: Path) -> None:
    person, report = Person(tmp_path), tmp_path / "report.json"
    words = ("check", "--facts", OLD_DRIVER, "-o", f"json={report}")
    started = [person.start(*words) for _ in range(8)]
    for process in started:
        _, err = process.communicate()
        assert (process.returncode, err) == (1, "")
    assert json.loads(report.read_text())["verdict"] == "fail"
    left = [path.name for path in tmp_path.rglob("*") if path.suffix not in ("", ".json")]
    assert left == []


def test_an_index_that_nobody_serves_is_named(tmp_path: Path) -> None:
    dead = {"PIP_INDEX_URL": "http://127.0.0.1:1/simple", "PIP_EXTRA_INDEX_URL": ""}
    person = Person(tmp_path, extra={**dead, "UV_HTTP_RETRIES": "0"})
    for line in ("profile lock llamacpp-cpu -o {}/stack.lock", "plan llamacpp-cpu --user"):
        answer = person.ask(*line.replace("{}", str(tmp_path)).split())
        answer.expect_clear(4)
        assert "127.0.0.1:1" in answer.err
    assert not (tmp_path / "stack.lock").exists()
    person.ask("matrix", "update", "vllm").expect_clear(4)


@pytest.mark.parametrize("years", [-30, 30])
def test_files_from_another_time_change_no_answer(tmp_path: Path, years: int) -> None:
    person = Person(tmp_path)
    words = ("check", "--facts", OLD_DRIVER, "--format", "json")
    first = person.ask(*words)
    moment = time.time() + years * 365 * 86_400
    for path in tmp_path.rglob("*"):
        os.utime(path, (moment, moment))
    assert person.ask(*words) == first
