"""Facts of releases: what an engine's own source says of a card, format, back end, model or driver.

`facts.yaml` was written from the sources, not from reports; each line asks for one row of the
matrix by way of the rule that reads it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from doctor.diagnose import diagnose
from doctor.findings import Severity
from doctor.intake.case_file import read_case_file
from doctor.matrix.compile import read_yaml
from doctor.matrix.load import load_matrix

MATRIX = load_matrix()
DATA = Path(__file__).parent.parent / "data"
FACTS: list[dict[str, Any]] = read_yaml(DATA / "facts.yaml")["facts"]


@pytest.mark.parametrize("fact", FACTS, ids=[str(fact["fact"]) for fact in FACTS])
def test_fact_is_known(fact: dict[str, Any]) -> None:
    diagnosis = diagnose(read_case_file(fact), MATRIX)
    findings = [f for target in diagnosis.targets for f in target.findings]
    if "cause" in fact:
        primary = diagnosis.targets[0].primary
        assert primary is not None
        assert (primary.cause, primary.severity is Severity.INFO) == (fact["cause"], False)
    else:
        assert [f for f in findings if f.severity is not Severity.INFO] == []
