"""The line of a file at which a finding is shown: that of its first evidence which names one."""

from __future__ import annotations

import re

from doctor.findings import Finding
from doctor.report import Report

_LINE = re.compile(r"(.+):([0-9]{1,7})")


def place(report: Report, finding: Finding | None = None) -> tuple[str, int] | None:
    """File and line; the first file from its top if nothing says more, None for a live host."""
    for item in finding.evidence if finding else ():
        match = _LINE.fullmatch(item.at)
        if match and match[1] in report.paths:
            return match[1], int(match[2])
    return (report.paths[0], 1) if report.paths else None
