"""Many hosts on a terminal: equal faults together, the spread of versions, one line a host."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterator, Sequence

from doctor.findings import Severity, Verdict
from doctor.report import Fleet, Report, Style
from doctor.report.clean import clean_line
from doctor.report.fleet_groups import Fault, faults, main_cause, spread, verdicts
from doctor.report.paint import STATES, VERDICTS, paint

_NAMES_SHOWN, _WORDINGS_SHOWN, _VALUES_SHOWN, _ROWS_SHOWN = 6, 4, 5, 40
_INDENT = 10


def render_fleet(fleet: Fleet, style: Style) -> str:
    """The counts first and last, since one of them is what stays in sight."""
    lines = [_counts(fleet, style)]
    if not style.quiet:
        for fault in faults(fleet, style.verbose):
            lines += ["", *_fault(fault, style)]
        lines += ["", *_spread(fleet, style), *_rows(fleet, style), *_notes(fleet, style)]
        lines += ["", _counts(fleet, style)]
    as_of = next((r.diagnosis.matrix_as_of for r in fleet.hosts), "")
    lines += [f"by the matrix of {clean_line(as_of)}"] if as_of and not style.quiet else []
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _counts(fleet: Fleet, style: Style) -> str:
    total = len(fleet.hosts) + len(fleet.unreadable)
    parts = []
    for verdict, count in verdicts(fleet).items():
        word, *codes = VERDICTS[verdict]
        parts.append(paint(style, f"{count} {word}", *codes))
    parts += [f"{len(fleet.unreadable)} unreadable"] if fleet.unreadable else []
    return f"{total} host{'s' if total != 1 else ''}: {', '.join(parts)}"


def _fault(fault: Fault, style: Style) -> Iterator[str]:
    finding = fault.example
    word, colour = STATES[finding.severity.value]
    title = paint(style, f"{finding.cause} [{finding.code}]", colour, "bold")
    on = f" on {len(fault.roots)}" if len(fault.roots) < len(fault.hosts) else ""
    roots = f", the root cause{on}" if fault.roots else ""
    yield f"{len(fault.hosts):>5} {paint(style, f'{word:<4}', colour)} {title}{roots}"
    wordings = fault.most_said
    shown = wordings if style.verbose else wordings[:_WORDINGS_SHOWN]
    for message, hosts in shown:
        yield from _wrapped(message, style)
        names = f"on {len(hosts)}: {_names(hosts, style)}" if len(hosts) > 1 else f"on {hosts[0]}"
        yield from (paint(style, line, "dim") for line in _wrapped(names, style))
    if len(wordings) > len(shown):
        yield f"{'':{_INDENT}}and {len(wordings) - len(shown)} more wordings (-v lists them)"
    if finding.remedies and finding.severity is not Severity.INFO:
        yield from _wrapped(f"fix: {finding.remedies[0].action}", style)


def _names(hosts: Sequence[str], style: Style) -> str:
    shown = hosts if style.verbose else hosts[:_NAMES_SHOWN]
    more = f" and {len(hosts) - len(shown)} more" if len(hosts) > len(shown) else ""
    return ", ".join(shown) + more


def _wrapped(text: str, style: Style) -> list[str]:
    room = max(style.width - _INDENT, 20)
    lines = textwrap.wrap(clean_line(text, 4000), room, break_on_hyphens=False)
    return [" " * _INDENT + line for line in lines]


def _spread(fleet: Fleet, style: Style) -> Iterator[str]:
    for name, counted in spread(fleet).items():
        yield name
        yield from _wrapped(_values(counted, style), style)


def _values(counted: Counter[str], style: Style) -> str:
    listed = counted.most_common(None if style.verbose else _VALUES_SHOWN)
    more = f", and {len(counted) - len(listed)} more" if len(counted) > len(listed) else ""
    return ", ".join(f"{value} on {count}" for value, count in listed) + more


def _rows(fleet: Fleet, style: Style) -> Iterator[str]:
    """One line a host, while that is not more than a person reads."""
    if len(fleet.hosts) > _ROWS_SHOWN and not style.verbose:
        return
    yield ""
    for report in fleet.hosts:
        yield _row(report, style)


def _row(report: Report, style: Style) -> str:
    word, *codes = VERDICTS[report.diagnosis.verdict]
    cause = main_cause(report)
    why = f"{cause.cause} [{cause.code}]" if cause else _lacks(report)
    return f"{clean_line(report.name, 40):<30} {paint(style, f'{word:<12}', *codes)} {why}"


def _lacks(report: Report) -> str:
    if report.diagnosis.verdict is not Verdict.CANNOT_TELL:
        return ""
    missing = [name for target in report.diagnosis.targets for name in target.missing[:1]]
    return f"not known: {clean_line(', '.join(missing))}" if missing else ""


def _notes(fleet: Fleet, style: Style) -> Iterator[str]:
    for lost in fleet.unreadable:
        yield f"{clean_line(lost.name)}: {clean_line(lost.reason)}"
    notes = Counter(note for report in fleet.hosts for note in report.notes)
    yield from (clean_line(note) for note in notes)
    hidden = Counter((h.finding.cause, h.reason) for r in fleet.hosts for h in r.hidden)
    for (cause, reason), count in hidden.items():
        yield f"ignored on {count}: {cause} ({clean_line(reason)})"
