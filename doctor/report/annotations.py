"""Workflow commands of GitHub Actions: findings shown at the file they came from.

GitHub shows ten of each kind in a step; errors and primary findings come first.
"""

from __future__ import annotations

from doctor.findings import Finding, Severity, Verdict
from doctor.report import Fleet, Report, Style
from doctor.report.clean import clean_line
from doctor.report.fingerprint import is_known
from doctor.report.place import place

_COMMANDS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "notice"}

_MISSING_SHOWN = 8


def render(report: Report, style: Style) -> str:
    """One line a finding, and the verdict as a notice."""
    return render_fleet(Fleet(report.source, (report,)), style)


def render_fleet(fleet: Fleet, style: Style) -> str:
    """The lines of every host, the most severe first."""
    found = [entry for report in fleet.hosts for entry in _entries(report, style)]
    lines = [line for _, line in sorted(found, key=lambda entry: entry[0])]
    lines += [
        _command("error", {"file": lost.path, "title": "unreadable"}, lost.reason)
        for lost in fleet.unreadable
    ]
    for report in fleet.hosts:
        for note in (*report.notes, *_hidden(report)):
            lines.append(_command("notice", {"title": report.name or "doctor"}, note))
        if len(fleet.hosts) == 1:
            lines.append(_verdict(report))
    return "".join(f"{line}\n" for line in lines)


def _entries(report: Report, style: Style) -> list[tuple[tuple[int, bool], str]]:
    entries = []
    for target in report.diagnosis.targets:
        for finding in target.findings:
            if finding.severity is Severity.INFO and not style.verbose:
                continue
            known = is_known(report, target.subject, finding)
            rank = (2 if known else -finding.severity.weight, finding is not target.primary)
            entries.append((rank, _line(report, target.subject, finding, known)))
    unsure = (-Severity.WARNING.weight, True)
    return [*entries, *((unsure, line) for line in _undecided(report))]


def _line(report: Report, target: str, finding: Finding, known: bool) -> str:
    command = "notice" if known else _COMMANDS[finding.severity]
    title = {"title": f"{finding.cause} [{finding.code}]{' (known)' if known else ''}"}
    subject = "/".join(part for part in (report.name, target) if part)
    text = f"{subject}: {finding.message}"
    for remedy in finding.remedies[:1]:
        text += f"\nfix: {remedy.action}"
        text += "".join(f"\n$ {command}" for command in remedy.commands)
    return _command(command, {**_place(report, finding), **title}, text)


def _undecided(report: Report) -> list[str]:
    """What was not known of targets that could not be judged."""
    lines = []
    for target in report.diagnosis.targets:
        if target.verdict is Verdict.CANNOT_TELL:
            subject = "/".join(part for part in (report.name, target.subject) if part)
            text = f"{subject}: not known: {', '.join(target.missing[:_MISSING_SHOWN])}"
            lines.append(_command("warning", {**_place(report), "title": "cannot tell"}, text))
    return lines


def _place(report: Report, finding: Finding | None = None) -> dict[str, str]:
    found = place(report, finding)
    return {"file": found[0], "line": str(found[1])} if found else {}


def _hidden(report: Report) -> list[str]:
    return [f"hidden: {h.finding.cause} of {h.target}, {h.reason}" for h in report.hidden]


def _verdict(report: Report) -> str:
    verdict, as_of = report.diagnosis.verdict.value, report.diagnosis.matrix_as_of
    return _command("notice", {"title": "doctor"}, f"{verdict}, by the matrix of {as_of}")


def _command(name: str, properties: dict[str, str], text: str) -> str:
    listed = ",".join(f"{key}={_property(value)}" for key, value in properties.items())
    lines = "\n".join(clean_line(line, 2000) for line in text.split("\n"))
    return f"::{name} {listed}::{_data(lines)}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(clean_line(text)).replace(":", "%3A").replace(",", "%2C")
