"""What has drifted, for people and for programs."""

from __future__ import annotations

import json

from doctor.findings import Severity
from doctor.provision.drift import Drift
from doctor.report import Style
from doctor.report.clean import clean_line

SCHEMA = "doctor/drift/v1"


def render_text(drift: Drift, style: Style) -> str:
    """One line a difference, and what the judge finds now."""
    head = f"{drift.profile} on {drift.target}"
    if drift.is_clean:
        lines = [f"{head}: no drift; all is as it was applied"]
    else:
        lines = [f"{head}: {len(drift.differences) + len(drift.faults)} differences"]
    for found in drift.differences:
        lines.append(f"  {found.kind:<8} {found.subject}: {found.text}")
    for finding in _findings(drift, style):
        lines.append(f"  {finding}")
    if not drift.is_clean:
        whose = " --user" if drift.goal.scope == "user" else ""
        where = "" if drift.target == "local" else f" --on {drift.target}"
        lines.append(f"put it back: doctor apply {drift.profile}{whose}{where}")
    return "\n".join(clean_line(line) for line in lines) + "\n"


def _findings(drift: Drift, style: Style) -> list[str]:
    lowest = Severity.INFO if style.verbose else Severity.WARNING
    return [
        f"{finding.severity.value:<8} {finding.code} {finding.message}"
        for target in drift.diagnosis.targets
        for finding in target.findings
        if finding.severity.weight >= lowest.weight
    ]


def render_json(drift: Drift) -> str:
    """The drift for programs."""
    found = {
        "schema": SCHEMA,
        "profile": drift.profile,
        "target": drift.target,
        "clean": drift.is_clean,
        "lock": drift.goal.lock,
        "differences": [
            {"kind": d.kind, "subject": d.subject, "text": d.text} for d in drift.differences
        ],
        "verdict": drift.diagnosis.verdict.value,
        "findings": [
            {"code": f.code, "severity": f.severity.value, "message": f.message}
            for target in drift.diagnosis.targets
            for f in target.findings
        ],
    }
    return json.dumps(found, indent=1, ensure_ascii=False) + "\n"
