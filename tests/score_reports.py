"""Score doctor on labelled reports: `python -m tests.score_reports DIR [--json] [--tiers AB]`.

`--half mended` or `--half held` takes one half of the cases, split by a hash of their ids:
rules are written with the misses of the first in view, the second shows what that was worth.
For the held half no case is named.

Each file of DIR is a case: a field report under `report` and, under `expect`, the
cause that its maintainers found. Where that can be decided by facts alone the log is
withheld. Cases with `control: true` are healthy hosts or faults of an engine: there an
error about the environment is wrong.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from doctor.diagnose import diagnose
from doctor.errors import DoctorError, UsageError
from doctor.findings import Finding, Severity, Verdict
from doctor.intake.case_file import looks_like, read_case_file
from doctor.intake.detect import read_text
from doctor.intake.document import read_document
from doctor.intake.stated import truth
from doctor.matrix import Matrix
from doctor.matrix.load import load_matrix

GROUPS = ("facts", "log", "no")
HALVES = ("mended", "held")


@dataclass(frozen=True)
class LabelledCase:
    """A case file: its report, and what is expected of doctor."""

    id: str
    document: dict[str, Any]
    cause: str
    also: tuple[str, ...]
    decidable: str
    tier: str
    control: bool

    @property
    def half(self) -> str:
        """The half of the set that the case belongs to."""
        return HALVES[hashlib.sha256(self.id.encode()).digest()[0] % 2]

    @property
    def accepted(self) -> frozenset[str]:
        """The causes that count as right."""
        return frozenset((self.cause, *self.also))


@dataclass(frozen=True)
class Scored:
    """What doctor said of one case."""

    case: LabelledCase
    verdict: Verdict
    primary: Finding | None
    findings: tuple[Finding, ...]

    @property
    def primary_cause(self) -> str:
        """The cause named first, "" if none is."""
        return self.primary.cause if self.primary else ""

    @property
    def is_top1(self) -> bool:
        """The cause named first is an accepted one."""
        return self.primary_cause in self.case.accepted

    @property
    def is_decided(self) -> bool:
        """The cause named first, decided by a rule or a log and not only likely, is accepted."""
        is_likely = self.primary is not None and self.primary.severity is Severity.INFO
        return self.is_top1 and not is_likely

    @property
    def is_confident_wrong(self) -> bool:
        """The cause named first, at error level, is none of the accepted ones."""
        sure = self.primary is not None and self.primary.severity is Severity.ERROR
        return sure and not self.is_top1

    def has(self, severity: Severity) -> bool:
        """Some finding of this severity names a cause that is not accepted."""
        wrong = (f for f in self.findings if f.cause not in self.case.accepted)
        return any(f.severity is severity for f in wrong)


def read_case(path: Path) -> LabelledCase:
    """Read one case file; raises UsageError if it is none."""
    document = read_document(read_text(path), str(path))
    if not looks_like(document) or not isinstance(document.get("expect"), dict):
        raise UsageError(f"{path}: not a case file", "it needs `report` and `expect`")
    expect = document["expect"]
    decidable = str(expect.get("decidable", "facts"))
    if decidable not in GROUPS:
        raise UsageError(f"{path}: decidable is {decidable!r}", "write facts, log or no")
    return LabelledCase(
        id=str(document.get("id") or path.stem),
        document=document,
        cause=str(expect.get("cause", "")),
        also=tuple(expect.get("also") or ()),
        decidable=decidable,
        tier=str(expect.get("tier", "")),
        control=truth(str(expect.get("control", "false"))) is True,
    )


def score(case: LabelledCase, matrix: Matrix) -> Scored:
    """Judge one case, its log withheld where facts must be enough."""
    report = dict(case.document["report"])
    if case.decidable == "facts":
        report.pop("log", None)
    diagnosis = diagnose(read_case_file({"report": report}), matrix)
    primaries = [t.primary for t in diagnosis.targets if t.primary]
    primary = max(primaries, key=lambda f: f.severity.weight, default=None)
    findings = tuple(f for t in diagnosis.targets for f in t.findings)
    return Scored(case, diagnosis.verdict, primary, findings)


def summary(scored: Iterable[Scored]) -> dict[str, Any]:
    """The figures, in the order in which the report prints them."""
    listed = list(scored)
    failures = [s for s in listed if not s.case.control]
    groups = {name: _group([s for s in failures if s.case.decidable == name]) for name in GROUPS}
    decidable = [s for s in failures if s.case.decidable != "no"]
    return {
        **groups,
        "controls": _controls([s for s in listed if s.case.control]),
        "by_cause": _by_cause(decidable),
        "cases": [_case(s) for s in listed],
    }


def _group(scored: list[Scored]) -> dict[str, Any]:
    top1 = sum(s.is_top1 for s in scored)
    return {
        "n": len(scored),
        "top1": top1,
        "decided": sum(s.is_decided for s in scored),
        "top1_strict": sum(s.primary_cause == s.case.cause for s in scored),
        "any": sum(any(f.cause in s.case.accepted for f in s.findings) for s in scored),
        "cannot_tell": sum(s.verdict is Verdict.CANNOT_TELL for s in scored),
        "confident_wrong": sum(s.is_confident_wrong for s in scored),
        "top1_rate": _rate(top1, len(scored)),
    }


def _controls(scored: list[Scored]) -> dict[str, int]:
    errors = [s for s in scored if s.has(Severity.ERROR)]
    warnings = [s for s in scored if s not in errors and s.has(Severity.WARNING)]
    return {"n": len(scored), "errors": len(errors), "warnings": len(warnings)}


def _by_cause(scored: list[Scored]) -> dict[str, dict[str, Any]]:
    total = Counter(s.case.cause for s in scored)
    right = Counter(s.case.cause for s in scored if s.is_top1)
    return {
        cause: {"n": n, "top1": right[cause], "top1_rate": _rate(right[cause], n)}
        for cause, n in sorted(total.items())
    }


def _case(scored: Scored) -> dict[str, Any]:
    return {
        "id": scored.case.id,
        "expected": scored.case.cause,
        "primary": scored.primary_cause or None,
        "all": sorted({f.cause for f in scored.findings}),
        "verdict": scored.verdict.value,
    }


def _rate(part: int, whole: int) -> float:
    return round(part / whole, 4) if whole else 0.0


def macro_average(figures: dict[str, Any]) -> float:
    """The mean of the rates of all causes: rare causes weigh as much as common ones."""
    rates = [row["top1_rate"] for row in figures["by_cause"].values()]
    return round(sum(rates) / len(rates), 4) if rates else 0.0


def render(figures: dict[str, Any], scored: Iterable[Scored]) -> str:
    """A table for people, with every miss below it."""
    columns = (
        "n",
        "top1",
        "decided",
        "top1_strict",
        "any",
        "cannot_tell",
        "confident_wrong",
        "top1_rate",
    )
    lines = ["group   " + " ".join(f"{name:>15}" for name in columns)]
    for name in GROUPS:
        lines.append(f"{name:8}" + " ".join(f"{figures[name][c]:>15}" for c in columns))
    controls = figures["controls"]
    lines.append(
        "controls: {n}, with an error {errors}, with a warning {warnings}".format(**controls)
    )
    lines.append(f"macro average over causes: {macro_average(figures):.4f}")
    lines += ["", "by cause"]
    for cause, row in figures["by_cause"].items():
        lines.append(f"  {cause:36} {row['top1']:>3} of {row['n']:<3}")
    return "\n".join([*lines, "", "misses", *_misses(scored)]) + "\n"


def _misses(scored: Iterable[Scored]) -> list[str]:
    lines = []
    for item in scored:
        case = item.case
        wrong = item.has(Severity.ERROR) if case.control else not item.is_top1
        warned = case.control and item.has(Severity.WARNING)
        if not wrong and not warned:
            continue
        kind = "control" if case.control else case.decidable
        mark = "!" if item.is_confident_wrong else " "
        found = ", ".join(f"{f.code} {f.cause} ({f.severity.value})" for f in item.findings)
        lines.append(f"{mark} {case.tier} {kind:8} {case.id}: {case.cause} <- {found or '-'}")
    return lines


def run(folder: Path, tiers: str, half: str = "", unseen: bool = False) -> list[Scored]:
    """Score every case file of a folder whose tier is among `tiers`, of one half if named.

    `unseen`: what is likeliest comes from the other sets only.
    """
    paths = sorted(folder.glob("*.yaml"))
    if not paths:
        raise UsageError(f"{folder}: no case files", "name a folder of *.yaml case files")
    matrix = load_matrix()
    if unseen:
        from tests.make_likelihood import without

        vars(matrix)["likelihood"] = without(folder.name, matrix)
    cases = [read_case(path) for path in paths]
    return [score(c, matrix) for c in cases if c.tier in tiers and half in ("", c.half)]


def main(argv: list[str] | None = None) -> int:
    """Print the figures; 0 if every case could be read, else the error's code."""
    parser = argparse.ArgumentParser(prog="python -m tests.score_reports", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    parser.add_argument("--tiers", default="ABC", help="confidence tiers of the labels to run")
    parser.add_argument("--half", choices=HALVES, default="", help="one half of the cases only")
    parser.add_argument("--unseen", action="store_true", help="weigh by the other sets only")
    options = parser.parse_args(argv)
    try:
        scored = run(options.folder, options.tiers, options.half, options.unseen)
    except DoctorError as fault:
        print(f"{fault} ({fault.hint})", file=sys.stderr)
        return int(fault.exit_code)
    figures = summary(scored)
    shown = render(figures, [] if options.half == "held" else scored)
    print(json.dumps(figures, indent=1) if options.json else shown, end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
