"""A report that no rule decides: a note on what such reports mostly are, and no more than that."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from doctor.diagnose import diagnose
from doctor.facts import Facts
from doctor.findings import Severity, TargetDiagnosis, Verdict
from doctor.intake.field_report import read_field_report
from doctor.matrix import load_matrix

# Nothing known is wrong with these; each states more than an engine.
OPEN: tuple[dict[str, Any], ...] = (
    {"engine": "llamafactory", "gpus": [{"name": "RTX 3090"}], "python": "3.11"},
    {"engine": "sglang", "python": "3.12", "packages": {"transformers": "4.46.0"}},
    {"engine": "vllm", "gpus": [{"name": "A100", "count": 2}], "driver": "550.54.15"},
)
DECIDED = {"gpus": [{"name": "H100"}], "driver": "470.57", "packages": {"torch": "2.6.0+cu124"}}


def judged(facts: Facts) -> TargetDiagnosis:
    return diagnose(facts, load_matrix()).targets[0]


@pytest.mark.parametrize("report", OPEN, ids=lambda report: report["engine"])
def test_the_likeliest_cause_is_a_note(report: dict[str, Any]) -> None:
    target = judged(read_field_report(report))
    assert target.primary is not None
    assert target.primary is target.findings[0]
    assert target.primary.severity is Severity.INFO
    assert "not decided" in target.primary.message
    assert target.primary.evidence
    assert target.verdict is Verdict.CANNOT_TELL
    assert not [f for f in target.findings if f.severity is not Severity.INFO]


def test_the_others_are_named_with_the_facts_that_would_settle_it() -> None:
    target = judged(read_field_report(OPEN[2]))
    assert target.primary is not None
    causes = [suspect.cause for suspect in target.candidates]
    assert len(set(causes)) == len(causes) >= 2
    assert any(suspect.decide for suspect in target.candidates)


def test_what_rules_decide_is_not_touched() -> None:
    target = judged(read_field_report({"engine": "vllm", **DECIDED}))
    assert target.primary is not None
    assert target.primary.severity is Severity.ERROR
    assert "not decided" not in target.primary.message
    assert target.candidates == ()


@pytest.mark.parametrize("report", OPEN, ids=lambda report: report["engine"])
def test_a_host_that_was_read_is_not_judged_by_others(report: dict[str, Any]) -> None:
    facts = read_field_report(report)
    renamed = replace(
        facts,
        scopes=tuple(replace(scope, id="venv:/opt/x") for scope in facts.scopes),
        workloads=tuple(replace(work, scope="venv:/opt/x") for work in facts.workloads),
    )
    assert judged(renamed).primary is None


def test_an_engine_alone_names_nothing() -> None:
    assert judged(read_field_report({"engine": "vllm"})).primary is None


def test_two_targets_never_share_a_note_by_accident() -> None:
    """The same report twice says the same: nothing of the ranking is random."""
    first, again = (judged(read_field_report(OPEN[0])) for _ in range(2))
    assert first == again
