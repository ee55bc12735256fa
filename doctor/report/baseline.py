"""The baseline: which findings there are now, so that a later check fails only on new ones.

It holds no facts, so it may be committed; what a finding says is for the people who read it.
"""

from __future__ import annotations

import json

from doctor.report import Fleet, Report, Style
from doctor.report.clean import clean_line
from doctor.report.fingerprint import fingerprint

SCHEMA = "doctor/baseline/v1"


def render(report: Report, style: Style) -> str:
    """The findings of one host."""
    return render_fleet(Fleet(report.source, (report,)), style)


def render_fleet(fleet: Fleet, style: Style) -> str:
    """The findings of every host, in an order that keeps the differences of two files small."""
    found = {
        fingerprint(report, target.subject, finding): (f"{report.name}: " if report.name else "")
        + f"{finding.cause} [{finding.code}]: {clean_line(finding.message)}"
        for report in fleet.hosts
        for target in report.diagnosis.targets
        for finding in target.findings
    }
    ordered = dict(sorted(found.items(), key=lambda pair: (pair[1], pair[0])))
    return json.dumps({"schema": SCHEMA, "findings": ordered}, indent=1) + "\n"
