"""Logs of real shape, as data: the cause that is named first."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from doctor.diagnose import diagnose
from doctor.findings import Severity
from doctor.intake.field_report import read_field_report
from doctor.matrix import load_matrix

DATA = Path(__file__).parent / "data"
MATRIX = load_matrix()


def cases() -> list[dict[str, Any]]:
    """All cases, each with its log, the report beside it and the cause that is named first."""
    files = sorted(DATA.glob("*.yaml"))
    return [case for path in files for case in yaml.safe_load(path.read_text())["cases"]]


@pytest.mark.parametrize("case", cases(), ids=lambda case: str(case["name"]))
def test_log_names_its_cause(case: dict[str, Any]) -> None:
    facts = read_field_report({**case.get("report", {}), "log": case["log"]})
    (target,) = diagnose(facts, MATRIX).targets
    errors = [f.cause for f in target.findings if f.severity is Severity.ERROR]
    assert (errors[0] if errors else "") == case["expect"]
