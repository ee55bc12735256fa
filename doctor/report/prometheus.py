"""Prometheus text format, for the textfile collector of node_exporter.

Write it with `-o prometheus=FILE`: files are replaced whole, as the collector wants.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import doctor
from doctor.findings import OutcomeKind, Verdict
from doctor.report import Fleet, Report, Style
from doctor.report.clean import clean_line
from doctor.report.fingerprint import is_known


@dataclass
class _Metric:
    """One gauge with its samples."""

    name: str
    text: str
    samples: list[tuple[dict[str, str], int]] = field(default_factory=list)

    def lines(self) -> Iterator[str]:
        yield f"# HELP {self.name} {self.text}"
        yield f"# TYPE {self.name} gauge"
        # A sample that stands twice makes the collector refuse the whole file.
        unique = {_labels(labels): value for labels, value in self.samples}
        for labels, value in unique.items():
            yield f"{self.name}{labels} {value}"


def render(report: Report, style: Style) -> str:
    """The metrics of one host; without a host label, which the scraper adds."""
    return render_fleet(Fleet(report.source, (report,)), style)


def render_fleet(fleet: Fleet, style: Style) -> str:
    """The metrics of every host, told apart by the label `host`."""
    matrix = {(r.diagnosis.matrix_version, r.diagnosis.matrix_as_of) for r in fleet.hosts}
    info = _Metric("doctor_info", "Version of doctor and of its matrix, always 1.")
    for version, as_of in sorted(matrix):
        labels = {"version": doctor.__version__, "matrix": version, "matrix_as_of": as_of}
        info.samples.append((labels, 1))
    verdict = _Metric("doctor_verdict", "1 for the verdict of each target, 0 for the others.")
    finding = _Metric("doctor_finding", "1 for each finding; known=true stands in the baseline.")
    undecided = _Metric("doctor_rules_undecided", "Rules that lacked a fact, of each target.")
    unread = _Metric("doctor_unreadable", "1 for each host whose facts could not be read.")
    unread.samples = [({"host": lost.name}, 1) for lost in fleet.unreadable]
    for report in fleet.hosts:
        _add(report, verdict, finding, undecided)
    metrics = (info, verdict, finding, undecided, unread)
    return "".join(f"{line}\n" for metric in metrics for line in metric.lines())


def _add(report: Report, verdict: _Metric, finding: _Metric, undecided: _Metric) -> None:
    host = {"host": report.name} if report.name else {}
    for target in report.diagnosis.targets:
        labels = {**host, "target": target.subject}
        for value in Verdict:
            one = int(target.verdict is value)
            verdict.samples.append(({**labels, "verdict": value.value}, one))
        unsure = sum(o.kind is OutcomeKind.CANNOT_TELL for o in target.outcomes)
        undecided.samples.append((labels, unsure))
        for item in target.findings:
            said = {
                **labels,
                "code": item.code,
                "cause": item.cause,
                "severity": item.severity.value,
                "rung": item.rung.value,
                "subject": item.subject,
                "known": str(is_known(report, target.subject, item)).lower(),
            }
            finding.samples.append((said, 1))


def _labels(labels: dict[str, str]) -> str:
    return "{" + ",".join(f'{name}="{_value(text)}"' for name, text in labels.items()) + "}"


def _value(text: str) -> str:
    """A label's value: the format escapes backslash, quote and line feed."""
    return clean_line(text).replace("\\", "\\\\").replace('"', '\\"')
