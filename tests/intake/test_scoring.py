from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from doctor.errors import UsageError
from doctor.matrix.load import load_matrix
from tests.score_reports import GROUPS, LabelledCase, main, read_case, score, summary

REPORTS = Path(__file__).parent.parent / "field_reports"
COUNTS = {
    "n",
    "top1",
    "decided",
    "top1_strict",
    "any",
    "cannot_tell",
    "confident_wrong",
    "top1_rate",
}


def _cases(decidable: str, count: int) -> list[LabelledCase]:
    listed = [read_case(path) for path in sorted(REPORTS.glob("*.yaml"))]
    return [c for c in listed if c.decidable == decidable and not c.control][:count]


def _with_report(case: LabelledCase, **changed: object) -> LabelledCase:
    report = {**case.document["report"], **changed}
    return replace(case, document={**case.document, "report": report})


def test_the_log_is_withheld_where_facts_must_be_enough() -> None:
    matrix = load_matrix()
    for case in _cases("facts", 12):
        misled = _with_report(
            case, log="CUDA out of memory. Illegal instruction. exec format error"
        )
        assert score(misled, matrix).findings == score(case, matrix).findings


def test_labels_and_identity_do_not_reach_the_judge() -> None:
    matrix = load_matrix()
    for case in (*_cases("facts", 8), *_cases("log", 8)):
        only = {"report": case.document["report"]}
        blind = replace(case, document=only, id="x", cause="not-environment", also=())
        assert score(blind, matrix).findings == score(case, matrix).findings


def test_a_wrong_label_is_scored_as_wrong() -> None:
    matrix = load_matrix()
    cases = [replace(c, cause="not-environment", also=()) for c in _cases("facts", 12)]
    figures = summary(score(case, matrix) for case in cases)
    assert figures["facts"]["top1"] == 0


def test_json_has_the_agreed_shape(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for case in ("vllm-12386", "healthy-vllm-10023"):
        (tmp_path / f"{case}.yaml").write_text((REPORTS / f"{case}.yaml").read_text())
    assert main([str(tmp_path), "--json"]) == 0
    figures = json.loads(capsys.readouterr().out)
    assert set(figures) == {*GROUPS, "controls", "by_cause", "cases"}
    assert all(set(figures[group]) == COUNTS for group in GROUPS)
    assert set(figures["controls"]) == {"n", "errors", "warnings"}
    assert set(figures["cases"][0]) == {"id", "expected", "primary", "all", "verdict"}
    assert figures["controls"]["n"] == 1


def test_a_folder_without_cases_and_a_file_that_is_none(tmp_path: Path) -> None:
    assert main([str(tmp_path)]) == 2
    (tmp_path / "a.yaml").write_text("report: {engine: vllm}\n")
    with pytest.raises(UsageError):
        read_case(tmp_path / "a.yaml")
