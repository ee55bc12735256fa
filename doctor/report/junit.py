"""JUnit XML: a suite per target, a case per rule, for the test pages of CI systems.

An error fails its case; a warning or note passes with its text as output; what cannot be
told, does not apply, or is known from the baseline is skipped with the reason.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from xml.etree import ElementTree as ET
from xml.etree.ElementTree import Element, SubElement

from doctor.findings import Finding, Outcome, OutcomeKind, Severity, TargetDiagnosis
from doctor.report import Fleet, Report, Style
from doctor.report.clean import clean, clean_line
from doctor.report.fingerprint import is_known

_COUNTED = {"failures": "failure", "errors": "error", "skipped": "skipped"}
_NOT_XML = {code: f"\\u{code:04x}" for code in (0xFFFE, 0xFFFF)}


def render(report: Report, style: Style) -> str:
    """The suites of one host."""
    return render_fleet(Fleet(report.source, (report,)), style)


def render_fleet(fleet: Fleet, style: Style) -> str:
    """The suites of every host; a file that could not be read is an error of its own."""
    root = Element("testsuites", name="doctor")
    for report in fleet.hosts:
        for target in report.diagnosis.targets:
            root.append(_suite(report, target))
    for lost in fleet.unreadable:
        suite = SubElement(root, "testsuite", name=_text(lost.name))
        case = SubElement(suite, "testcase", classname=_text(lost.name), name="facts")
        SubElement(case, "error", message=_text(lost.reason))
        _count(suite)
    _count(root)
    ET.indent(root, " ")
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ET.tostring(root, "unicode") + "\n"


def _count(element: Element) -> None:
    element.set("tests", str(sum(1 for _ in element.iter("testcase"))))
    for attribute, tag in _COUNTED.items():
        element.set(attribute, str(sum(1 for _ in element.iter(tag))))


def _suite(report: Report, target: TargetDiagnosis) -> Element:
    name = _text("/".join(part for part in (report.name, target.subject) if part))
    suite = Element("testsuite", name=name)
    found: dict[str, list[Finding]] = defaultdict(list)
    for finding in target.findings:
        found[finding.code].append(finding)
    for outcome in target.outcomes:
        if outcome.code in found:
            case = SubElement(suite, "testcase", classname=name, name=_name(outcome))
            _judged(case, report, target, found[outcome.code])
        else:
            _silent(suite, report, target, outcome)
    _count(suite)
    return suite


def _name(outcome: Outcome) -> str:
    return f"{outcome.code} {outcome.cause}"


def _silent(suite: Element, report: Report, target: TargetDiagnosis, outcome: Outcome) -> None:
    """The case of a rule of which no finding is shown."""
    case = SubElement(suite, "testcase", classname=suite.get("name", ""), name=_name(outcome))
    if outcome.kind is OutcomeKind.CRASHED:
        SubElement(case, "error", message=_text(outcome.reason))
    elif outcome.kind is OutcomeKind.CANNOT_TELL:
        why = f"cannot tell without {outcome.missing} ({outcome.reason})"
        SubElement(case, "skipped", message=_text(why))
    elif outcome.kind is OutcomeKind.NOT_APPLICABLE:
        SubElement(case, "skipped", message=_text(f"does not apply: {outcome.reason}"))
    elif outcome.kind is OutcomeKind.FINDINGS:
        SubElement(case, "skipped", message=_text(f"ignored: {_reason(report, target, outcome)}"))


def _reason(report: Report, target: TargetDiagnosis, outcome: Outcome) -> str:
    mine = [h for h in report.hidden if h.target == target.subject]
    return next((h.reason for h in mine if h.finding.code == outcome.code), "by the ignore list")


def _judged(case: Element, report: Report, target: TargetDiagnosis, found: list[Finding]) -> None:
    new = [f for f in found if not is_known(report, target.subject, f)]
    errors = [f for f in new if f.severity is Severity.ERROR]
    text = "\n".join(line for finding in found for line in _lines(finding))
    if errors:
        failure = SubElement(case, "failure", type=errors[0].cause, message=_one(errors[0]))
        failure.text = text
        return
    if not new:
        SubElement(case, "skipped", message=f"known from the baseline: {_one(found[0])}")
    SubElement(case, "system-out").text = text


def _lines(finding: Finding) -> Iterator[str]:
    yield f"{finding.severity.value}: {_one(finding)}"
    for item in finding.evidence:
        yield f"  seen: {_text(item.fact)} ({_text(item.at)})"
    for remedy in finding.remedies:
        yield f"  fix: {_text(remedy.action)}"
        for command in remedy.commands:
            yield f"    $ {_text(command, 2000)}"


def _one(finding: Finding) -> str:
    subject = f"{finding.subject}: " if finding.subject else ""
    return _text(f"{subject}{clean(finding.message)}", 2000)


def _text(text: str, limit: int = 400) -> str:
    """On one line, and without the characters that XML 1.0 cannot hold."""
    return clean_line(text, limit).translate(_NOT_XML)
