"""What writes a log down puts words before its lines; that changes no verdict."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from doctor.diagnose import diagnose
from doctor.intake.field_report import read_field_report
from doctor.matrix import load_matrix
from tests.logs.test_log_cases import cases, named_instead

MATRIX = load_matrix()
TIME = "2026-11-29T12:00:00.000000000Z"


def _each(change: Callable[[str], str]) -> Callable[[str], str]:
    return lambda log: "\n".join(change(line) for line in log.rstrip("\n").split("\n"))


def _json(line: str) -> str:
    return json.dumps({"log": line + "\n", "stream": "stderr", "time": TIME})


WRITERS: dict[str, Callable[[str], str]] = {
    "docker compose": _each(lambda line: f"vllm-1  | {line}"),
    "docker's json-file": _each(_json),
    "Kubernetes": _each(lambda line: f"{TIME} stderr F {line}"),
    "journald": _each(lambda line: f"Nov 29 12:00:00 gpu-7 serve[4711]: {line}"),
    "Ray": _each(lambda line: f"(RayWorkerWrapper pid=4711, ip=10.0.0.7) {line}"),
    "torchrun": _each(lambda line: f"[rank3]: {line}"),
    "a terminal": _each(lambda line: f"\x1b[31m{line}\x1b[0m"),
    "syslog of a terminal": _each(lambda line: f"#033[31m{line}#033[0m"),
    "a pager": _each(lambda line: f"^[[31m{line}^[[0m"),
    "Windows": lambda log: log.replace("\n", "\r\n"),
    "another process between the lines": _each(
        lambda line: f"{line}\nINFO 11-29 12:00:00 [loggers.py:118] Engine 001: Running: 0 reqs"
    ),
    "a progress bar before": lambda log: f"\rLoading: 40%|####\rLoading: 99%|######### \n{log}",
}


# Every case with a third of the writers; all with all are in the full loop.
PARTS = 3


@pytest.mark.parametrize("writer", sorted(WRITERS))
def test_who_wrote_the_log_does_not_matter(writer: str) -> None:
    part = sorted(WRITERS).index(writer) % PARTS
    assert _changed(writer, tuple(cases())[part::PARTS]) == {}


@pytest.mark.heavy
@pytest.mark.parametrize("writer", sorted(WRITERS))
def test_no_writer_matters_to_any_case(writer: str) -> None:
    assert _changed(writer, tuple(cases())) == {}


def _changed(writer: str, of: Sequence[dict[str, Any]]) -> dict[object, str]:
    return {
        case["name"]: found
        for case in of
        if (found := _named_instead(case, WRITERS[writer](case["log"])))
    }


def _named_instead(case: dict[str, object], log: str) -> str:
    report = case.get("report")
    facts = read_field_report({**(report if isinstance(report, dict) else {}), "log": log})
    (target,) = diagnose(facts, MATRIX).targets
    return named_instead(target, str(case["expect"]))
