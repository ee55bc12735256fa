"""A version newer than the matrix gets no clean pass, and no error from what is carried over."""

from __future__ import annotations

from pathlib import Path

import pytest

from doctor.diagnose import Request, diagnose
from doctor.facts import Version
from doctor.facts.engines import ENGINE_ORDER
from doctor.findings import Rung, Severity, Verdict
from doctor.intake import read_input
from doctor.matrix import load_matrix

MATRIX = load_matrix()
HOSTS = Path(__file__).parent.parent / "hosts"
NAMES = ("h100x2-580", "t4-535", "gb10-580", "pro6000-610", "orin-jetpack6", "wsl2-4090")
# What is wrong there is wrong with the host, whatever engine is meant.
BELOW = {Rung.HOST, Rung.DRIVER, Rung.DEVICE}


@pytest.mark.parametrize("engine", ENGINE_ORDER)
@pytest.mark.parametrize("name", NAMES)
def test_a_made_up_version(name: str, engine: str) -> None:
    facts = read_input(HOSTS / name / "facts.json")
    target = diagnose(facts, MATRIX, Request(engine=engine, version=Version("99.0"))).targets[0]
    assert target.verdict is not Verdict.PASS
    errors = [f for f in target.findings if f.severity is Severity.ERROR and f.rung not in BELOW]
    assert not errors
