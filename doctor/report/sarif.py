"""SARIF 2.1.0: one result a finding, for code scanning and for dashboards."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import PurePath
from typing import Any
from urllib.parse import quote

import doctor
from doctor.findings import Finding, OutcomeKind, Remedy, Severity, TargetDiagnosis
from doctor.report import Fleet, Hidden, Report, Style
from doctor.report.clean import clean, clean_line
from doctor.report.fingerprint import fingerprint, is_known
from doctor.report.markdown import escape
from doctor.report.pages import parts, summary
from doctor.report.place import place

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "note"}


def render(report: Report, style: Style) -> str:
    """One run of one host."""
    return render_fleet(Fleet(report.source, (report,)), style)


def render_fleet(fleet: Fleet, style: Style) -> str:
    """One run; each host has its own file as the location of its results."""
    found = [pair for report in fleet.hosts for pair in _findings(report)]
    codes = sorted({finding.code for finding, _ in found})
    suppresses = any("suppressions" in result for _, result in found)
    for _, result in found:
        result["ruleIndex"] = codes.index(result["ruleId"])
        if suppresses:  # a result without the property reads as "unknown" beside one with it
            result.setdefault("suppressions", [])
    driver = {
        "name": "doctor",
        "version": doctor.__version__,
        "rules": [_rule(code, next(f for f, _ in found if f.code == code)) for code in codes],
    }
    run = {
        "tool": {"driver": driver},
        "invocations": [{"executionSuccessful": True, "toolExecutionNotifications": _open(fleet)}],
        "results": [result for _, result in found],
    }
    log = {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}
    return json.dumps(log, ensure_ascii=True, indent=1) + "\n"


def _findings(report: Report) -> Iterator[tuple[Finding, dict[str, Any]]]:
    for target in report.diagnosis.targets:
        for finding in target.findings:
            result = _result(report, target.subject, finding)
            if report.baseline is not None:
                known = is_known(report, target.subject, finding)
                result["baselineState"] = "unchanged" if known else "new"
            if finding is target.primary:
                result["rank"] = 100.0
            yield finding, result
    for hidden in report.hidden:
        yield hidden.finding, _suppressed(report, hidden)


def _suppressed(report: Report, hidden: Hidden) -> dict[str, Any]:
    until = f" (until {hidden.until})" if hidden.until else ""
    why = {"kind": "external", "justification": clean_line(f"{hidden.reason}{until}")}
    return {**_result(report, hidden.target, hidden.finding), "suppressions": [why]}


def _result(report: Report, target: str, finding: Finding) -> dict[str, Any]:
    return {
        "ruleId": finding.code,
        "level": _LEVELS[finding.severity],
        "message": {"text": _message(finding)},
        "locations": [_location(report, target, finding)],
        "partialFingerprints": {"doctor/v1": fingerprint(report, target, finding)},
        "properties": {"cause": finding.cause, "rung": finding.rung.value},
    }


def _message(finding: Finding) -> str:
    lines = [clean(finding.message)]
    lines += [f"Seen: {clean_line(e.fact)} ({clean_line(e.at)})" for e in finding.evidence]
    lines += [line for remedy in finding.remedies for line in _fix(remedy)]
    return "\n".join(lines)


def _fix(remedy: Remedy) -> Iterator[str]:
    yield f"Fix: {clean_line(remedy.action, 1000)}"
    for command in remedy.commands:
        yield f"    {clean_line(command, 2000)}"


def _location(report: Report, target: str, finding: Finding) -> dict[str, Any]:
    names = (report.name, target, finding.subject if finding.subject != target else "")
    where = "/".join(clean_line(name) for name in names if name)
    location: dict[str, Any] = {
        "logicalLocations": [{"fullyQualifiedName": where, "kind": "resource"}]
    }
    found = place(report, finding)
    if found is not None:
        artifact, region = {"uri": _uri(found[0])}, {"startLine": found[1]}
        location["physicalLocation"] = {"artifactLocation": artifact, "region": region}
    return location


def _uri(path: str) -> str:
    """Relative to the folder that doctor ran in where it can be: code scanning wants that."""
    pure = PurePath(path)
    quoted = quote(pure.as_posix(), errors="surrogatepass")
    return f"file://{quoted}" if pure.is_absolute() else quoted


def _rule(code: str, finding: Finding) -> dict[str, Any]:
    rule: dict[str, Any] = {
        "id": code,
        "name": "".join(word.capitalize() for word in finding.cause.split("-")),
        "shortDescription": {"text": summary(code) or finding.cause},
        "properties": {"tags": [finding.rung.value, finding.cause]},
    }
    page = parts(code)
    if page:
        rule["help"] = {
            "text": "\n\n".join(f"{name}: {text}" for name, text in page),
            "markdown": "\n\n".join(f"**{name}**: {escape(text)}" for name, text in page),
        }
    return rule


def _open(fleet: Fleet) -> list[dict[str, Any]]:
    """What could not be decided or read."""
    notes = [_notification("error", f"{u.path}: {u.reason}") for u in fleet.unreadable]
    for report in fleet.hosts:
        for target in report.diagnosis.targets:
            notes += [_notification("note", text) for text in _undecided(report, target)]
    return notes


def _undecided(report: Report, target: TargetDiagnosis) -> Iterator[str]:
    name = f"{report.name}/{target.subject}" if report.name else target.subject
    for outcome in target.outcomes:
        if outcome.gate and outcome.kind is OutcomeKind.CANNOT_TELL:
            yield f"{name}: {outcome.code} {outcome.cause} cannot tell without {outcome.missing}"
        elif outcome.kind is OutcomeKind.CRASHED:
            yield f"{name}: {outcome.code} crashed: {outcome.reason}"


def _notification(level: str, text: str) -> dict[str, Any]:
    return {"level": level, "message": {"text": clean_line(text, 1000)}}
