"""The report for machines, version 1: `doctor/report/v1`."""

from __future__ import annotations

import json
from typing import Any

from doctor.facts import to_wire
from doctor.findings import Finding, TargetDiagnosis
from doctor.report import Report, Style

SCHEMA = "doctor/report/v1"


def render(report: Report, style: Style) -> str:
    """One JSON document; keys are stable within the schema's version.

    In ASCII, so that no terminal's encoding can spoil it.
    """
    return json.dumps(to_data(report), indent=2 if style.verbose else 1) + "\n"


def to_data(report: Report) -> dict[str, Any]:
    """The report as plain JSON values."""
    diagnosis = report.diagnosis
    return {
        "schema": SCHEMA,
        "source": report.source,
        "verdict": diagnosis.verdict.value,
        "targets": [_target(target) for target in diagnosis.targets],
        "facts": to_wire(report.facts),
        "matrix": {"version": diagnosis.matrix_version, "as_of": diagnosis.matrix_as_of},
    }


def _target(target: TargetDiagnosis) -> dict[str, Any]:
    return {
        "subject": target.subject,
        "verdict": target.verdict.value,
        "primary": finding_data(target.primary) if target.primary else None,
        "findings": [finding_data(finding) for finding in target.findings],
        "candidates": [{"cause": s.cause, "decide": s.decide} for s in target.candidates],
        "missing": list(target.missing),
    }


def finding_data(finding: Finding) -> dict[str, Any]:
    """One finding as plain JSON values."""
    data: dict[str, Any] = to_wire(finding)
    return data
