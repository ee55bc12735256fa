"""The reports for machines, version 1: `doctor/report/v1` and `doctor/fleet/v1`.

Their schema is `report.schema.json` beside this file.
"""

from __future__ import annotations

import json
from typing import Any

from doctor.facts import to_wire
from doctor.findings import Finding, TargetDiagnosis
from doctor.report import Fleet, Report, Style
from doctor.report.asking import crashed
from doctor.report.fingerprint import fingerprint, is_known

SCHEMA = "doctor/report/v1"
FLEET_SCHEMA = "doctor/fleet/v1"


def render(report: Report, style: Style) -> str:
    """One JSON document; keys are stable within the schema's version.

    In ASCII, so that no terminal's encoding can spoil it.
    """
    return json.dumps(to_data(report), indent=2 if style.verbose else 1) + "\n"


def render_fleet(fleet: Fleet, style: Style) -> str:
    """One JSON document for all hosts; their facts stay in their own files."""
    data = {
        "schema": FLEET_SCHEMA,
        "source": fleet.source,
        "hosts": [
            {"name": r.name, "path": "".join(r.paths[:1]), **_judgement(r)} for r in fleet.hosts
        ],
        "unreadable": [vars(lost) for lost in fleet.unreadable],
        "matrix": _matrix(fleet.hosts[0]) if fleet.hosts else {},
    }
    return json.dumps(data, indent=2 if style.verbose else None) + "\n"


def to_data(report: Report) -> dict[str, Any]:
    """The report as plain JSON values."""
    return {
        "schema": SCHEMA,
        "source": report.source,
        **_judgement(report),
        "facts": to_wire(report.facts),
        "matrix": _matrix(report),
    }


def _judgement(report: Report) -> dict[str, Any]:
    data: dict[str, Any] = {
        "verdict": report.diagnosis.verdict.value,
        "targets": [_target(report, target) for target in report.diagnosis.targets],
    }
    if report.hidden:
        data["ignored"] = [
            {
                "target": hidden.target,
                "finding": _finding(report, hidden.target, hidden.finding),
                "reason": hidden.reason,
                "until": hidden.until,
            }
            for hidden in report.hidden
        ]
    return {**data, "notes": list(report.notes)} if report.notes else data


def _matrix(report: Report) -> dict[str, str]:
    return {"version": report.diagnosis.matrix_version, "as_of": report.diagnosis.matrix_as_of}


def _target(report: Report, target: TargetDiagnosis) -> dict[str, Any]:
    name, primary = target.subject, target.primary
    bugs = [{"code": o.code, "reason": o.reason} for o in crashed(target)]
    return {
        "subject": name,
        "verdict": target.verdict.value,
        "primary": _finding(report, name, primary) if primary else None,
        "findings": [_finding(report, name, finding) for finding in target.findings],
        "candidates": [{"cause": s.cause, "decide": s.decide} for s in target.candidates],
        "missing": list(target.missing),
        **({"crashed": bugs} if bugs else {}),
    }


def _finding(report: Report, target: str, finding: Finding) -> dict[str, Any]:
    """One finding; `known` tells whether the baseline has it, where one was named."""
    data: dict[str, Any] = to_wire(finding)
    data["fingerprint"] = fingerprint(report, target, finding)
    if report.baseline is not None:
        data["known"] = is_known(report, target, finding)
    return data
