"""A finding is the same one in the next run, after an upgrade, and whatever order facts have."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from doctor.diagnose import diagnose
from doctor.facts import Facts, Reading
from doctor.findings import Finding, Rung, Severity
from doctor.intake.detect import read_input
from doctor.matrix import Matrix, load_matrix
from doctor.report import Report
from doctor.report.fingerprint import fingerprint
from tests.golden.shared import load

ROOT = Path(__file__).parent.parent
HOSTS = sorted((ROOT / "hosts").glob("*/facts.json"))


@pytest.fixture(scope="module")
def matrix() -> Matrix:
    return load_matrix()


def _prints(facts: Facts, matrix: Matrix) -> set[str]:
    report = Report(facts, diagnose(facts, matrix))
    return {
        fingerprint(report, target.subject, finding)
        for target in report.diagnosis.targets
        for finding in target.findings
    }


def _shuffled(facts: Facts, dice: random.Random) -> Facts:
    def shuffle(value: Any) -> Any:
        if isinstance(value, Reading) and isinstance(value.value, tuple):
            return replace(value, value=shuffle(value.value))
        return tuple(dice.sample(value, len(value))) if isinstance(value, tuple) else value

    scopes = tuple(
        replace(scope, packages=shuffle(scope.packages), binaries=shuffle(scope.binaries))
        for scope in shuffle(facts.scopes)
    )
    return replace(
        facts, devices=shuffle(facts.devices), topology=shuffle(facts.topology), scopes=scopes
    )


@pytest.mark.parametrize("path", HOSTS, ids=lambda p: p.parent.name)
def test_equal_over_two_runs_and_reordered_facts(path: Path, matrix: Matrix) -> None:
    facts = read_input(path)
    first = _prints(facts, matrix)
    assert first == _prints(read_input(path), matrix)
    for seed in range(3):
        assert first == _prints(_shuffled(facts, random.Random(seed)), matrix)  # noqa: S311


def _one(message: str, subject: str = "venv:/opt/e", target: str = "vllm") -> str:
    finding = Finding("DRV101", "driver-too-old", Severity.ERROR, Rung.DRIVER, message, subject)
    return fingerprint(load("broken"), target, finding)


def test_figures_and_paths_do_not_matter() -> None:
    assert _one("driver 535.1 offers CUDA 12.2") == _one("driver 550.9 offers CUDA 12.4")
    assert _one("a file /a/b is old") == _one("a file /c/d is old")
    assert _one("x", "venv:/home/alice/e") == _one("x", "venv:/home/user1/e")
    assert _one("x", target="vllm:4711") == _one("x", target="vllm:4712")


def test_other_faults_and_subjects_do() -> None:
    assert _one("the driver is old") != _one("the driver is lost")
    assert _one("x", "venv:/opt/a") != _one("x", "venv:/opt/b")
    assert _one("x", "gpu0") != _one("x", "gpu1")
