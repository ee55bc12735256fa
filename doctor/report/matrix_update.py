"""What an update of the matrix found, and what its verification did."""

from __future__ import annotations

import json
from collections.abc import Iterable

from doctor.matrix.update import Outcome
from doctor.matrix.verification import Verification
from doctor.report.clean import clean_line

_NAME = 18


def render_update(outcomes: Iterable[Outcome], requests: int) -> str:
    """One line a domain that has news or could not be asked, and the sum."""
    found = tuple(outcomes)
    lines = [_line(outcome) for outcome in found if outcome.new or outcome.failed]
    new = sum(len(outcome.new) for outcome in found)
    asked = f"{len(found)} projects, {requests} requests"
    lines.append(f"{new} new releases ({asked})" if new else f"nothing new ({asked})")
    return "\n".join(lines) + "\n"


def _line(outcome: Outcome) -> str:
    if outcome.failed:
        return clean_line(f"{outcome.domain:<{_NAME}}not asked: {outcome.failed}")
    text = f"{outcome.domain:<{_NAME}}{', '.join(outcome.new)}"
    unread = f"; pins not read of {', '.join(outcome.unread)}" if outcome.unread else ""
    return clean_line(text + unread, 2000)


def render_update_json(outcomes: Iterable[Outcome], requests: int) -> str:
    """The same for programs."""
    rows = [
        {
            "domain": o.domain,
            "project": o.project,
            "new": list(o.new),
            "unread": list(o.unread),
            "newest": o.newest,
            "failed": o.failed,
        }
        for o in outcomes
    ]
    wire = {"schema": "doctor/matrix-update/v1", "requests": requests, "domains": rows}
    return json.dumps(wire, indent=2, ensure_ascii=False) + "\n"


def render_verification(found: Verification) -> str:
    """One line a domain: rows, age, gaps; then every fault."""
    head = f"{'domain':<{_NAME + 6}}{'rows':>6}{'days':>6}  gaps"
    lines = [head]
    for row in found.domains:
        old = " (too old)" if row.is_old else ""
        gaps = ", ".join(f"{count} {what}" for what, count in row.gaps)
        lines.append(f"{row.name:<{_NAME + 6}}{row.rows:>6}{row.age_days:>6}  {gaps}{old}")
    lines += ["", *(f"fault: {clean_line(fault, 1000)}" for fault in found.faults)]
    sound = "sound" if not found.faults else f"{len(found.faults)} faults"
    lines.append(f"{sound}; oldest domain {found.oldest_days} days")
    return "\n".join(lines) + "\n"


def render_verification_json(found: Verification) -> str:
    """The same for programs."""
    rows = [
        {
            "domain": row.name,
            "rows": row.rows,
            "as_of": row.as_of,
            "age_days": row.age_days,
            "is_old": row.is_old,
            "gaps": dict(row.gaps),
        }
        for row in found.domains
    ]
    wire = {"schema": "doctor/matrix-verify/v1", "faults": list(found.faults), "domains": rows}
    return json.dumps(wire, indent=2, ensure_ascii=False) + "\n"
