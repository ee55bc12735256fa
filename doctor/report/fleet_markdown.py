"""Many hosts in markdown: faults as a table, the spread of versions, what could not be read."""

from __future__ import annotations

from collections.abc import Iterator

from doctor.report import Fleet, Style
from doctor.report.fleet_groups import Fault, faults, spread, verdicts
from doctor.report.markdown import STATES, VERDICTS, code, escape

# A step summary holds 1 MiB, a comment 64 KiB.
_FAULTS_SHOWN, _HOSTS_SHOWN, _VALUES_SHOWN, _LOST_SHOWN = 60, 5, 8, 50


def render_fleet(fleet: Fleet, style: Style) -> str:
    """The counts as heading, then one row a fault."""
    total = len(fleet.hosts) + len(fleet.unreadable)
    counts = [f"{VERDICTS[verdict]} {count}" for verdict, count in verdicts(fleet).items()]
    counts += [f"⚠️ unreadable {len(fleet.unreadable)}"] if fleet.unreadable else []
    as_of = next((r.diagnosis.matrix_as_of for r in fleet.hosts), "")
    parts = [f"## {total} hosts: {' · '.join(counts)}"]
    parts += [_faults(fleet, style), _spread(fleet), _unreadable(fleet), _overlooked(fleet)]
    parts.append(f"<sub>doctor, by the matrix of {escape(as_of)}</sub>")
    return "\n\n".join(part for part in parts if part) + "\n"


def _faults(fleet: Fleet, style: Style) -> str:
    found = faults(fleet, style.verbose)
    if not found:
        return ""
    rows = [_row(fault) for fault in found[:_FAULTS_SHOWN]]
    more = f"\n\nand {len(found) - len(rows)} more" if len(found) > len(rows) else ""
    return "\n".join(("| hosts | fault | for example | fix |", "|--:|---|---|---|", *rows)) + more


def _row(fault: Fault) -> str:
    finding = fault.example
    names = list(fault.hosts)
    shown = ", ".join(code(name) for name in names[:_HOSTS_SHOWN])
    shown += f" and {len(names) - _HOSTS_SHOWN} more" if len(names) > _HOSTS_SHOWN else ""
    action = escape(finding.remedies[0].action) if finding.remedies else ""
    word = STATES[finding.severity.value]
    what = f"{word} **{finding.cause}** `{finding.code}`"
    return f"| {len(names)} | {what} | {escape(finding.message)} ({shown}) | {action} |"


def _spread(fleet: Fleet) -> str:
    rows = []
    for name, counted in spread(fleet).items():
        values = [f"{code(value)} {n}" for value, n in counted.most_common(_VALUES_SHOWN)]
        more = f", and {len(counted) - len(values)} more" if len(counted) > len(values) else ""
        rows.append(f"| {name} | {', '.join(values)}{more} |")
    return "\n".join(("| | value and hosts |", "|---|---|", *rows)) if rows else ""


def _unreadable(fleet: Fleet) -> str:
    rows = [f"- {code(u.name)}: {escape(u.reason)}" for u in fleet.unreadable[:_LOST_SHOWN]]
    return "\n".join(("Not readable:", "", *rows)) if rows else ""


def _overlooked(fleet: Fleet) -> str:
    rows = list(dict.fromkeys(_notes(fleet)))
    return "\n".join(("Ignored on purpose, and notes:", "", *rows)) if rows else ""


def _notes(fleet: Fleet) -> Iterator[str]:
    for report in fleet.hosts:
        for hidden in report.hidden:
            yield f"- {hidden.finding.cause} ({escape(hidden.reason)})"
        for note in report.notes:
            yield f"- {escape(note)}"
