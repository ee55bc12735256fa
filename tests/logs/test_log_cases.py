"""Logs of real shape, as data: the cause that is named first."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from doctor.diagnose import diagnose
from doctor.findings import Severity, TargetDiagnosis
from doctor.intake.field_report import read_field_report
from doctor.matrix import load_matrix

DATA = Path(__file__).parent / "data"
MATRIX = load_matrix()


@cache
def cases() -> list[dict[str, Any]]:
    """All cases, each with its log, the report beside it and the cause that is named first."""
    files = sorted(DATA.glob("*.yaml"))
    return [case for path in files for case in yaml.safe_load(path.read_text())["cases"]]


def named_instead(target: TargetDiagnosis, expected: str) -> str:
    """What is named first in place of the cause that is expected; "" if that is named.

    Where none is expected a warning may stand, an error not.
    """
    primary = target.primary
    if not expected and (primary is None or primary.severity is Severity.WARNING):
        return ""
    found = primary.cause if primary else "nothing"
    return "" if found == expected else found


@pytest.mark.parametrize("case", cases(), ids=lambda case: str(case["name"]))
def test_log_names_its_cause(case: dict[str, Any]) -> None:
    facts = read_field_report({**case.get("report", {}), "log": case["log"]})
    (target,) = diagnose(facts, MATRIX).targets
    assert named_instead(target, case["expect"]) == ""
