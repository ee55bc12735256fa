"""Secrets of a report's environment end at the door: no rule, report or snapshot sees them."""

from __future__ import annotations

import json

import pytest

from doctor.diagnose import diagnose
from doctor.facts import to_wire
from doctor.intake.case_file import read_case_file
from doctor.matrix.load import load_matrix

NAMES = ("HF_TOKEN", "MY_PASSWORD", "OPENAI_API_KEY", "AWS_SECRET_ACCESS_KEY", "DB_CREDENTIALS")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("form", ["{}", '"{}"', "'{}'", " {} ", "“{}”"])
def test_a_secret_is_neither_kept_nor_quoted(name: str, form: str) -> None:
    env = {name: form.format("open-sesame"), "VLLM_USE_V1": '"1"'}
    facts = read_case_file({"report": {"engine": "vllm", "env": env, "gpus": [{"name": "A100"}]}})
    assert "open-sesame" not in json.dumps(to_wire(facts))
    findings = [f for target in diagnose(facts, load_matrix()).targets for f in target.findings]
    assert findings
    assert "open-sesame" not in repr(findings)
