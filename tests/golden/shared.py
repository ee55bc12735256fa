"""Diagnoses that golden files are rendered from: data, so that only formats change them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from doctor.facts import to_wire
from doctor.findings import OutcomeKind, TargetDiagnosis
from doctor.intake.snapshot import from_wire
from doctor.report import Fleet, Report, Unreadable

FOLDER = Path(__file__).parent
DIAGNOSES = FOLDER / "diagnoses"
# Of the outcomes without a finding so many of each kind are kept.
_KEPT = 3


def names() -> list[str]:
    return sorted(path.stem for path in DIAGNOSES.glob("*.json"))


def load(name: str) -> Report:
    """The stored report of that name."""
    data = json.loads((DIAGNOSES / f"{name}.json").read_text(encoding="utf-8"))
    facts = from_wire(data.pop("facts"))
    report: Report = msgspec.convert({**data, "facts": {}}, Report, strict=False)
    return _one_primary(replace(report, facts=facts))


def fleet() -> Fleet:
    """All stored reports as one fleet, with a file that could not be read."""
    hosts = tuple(replace(load(name), name=name) for name in names())
    lost = Unreadable("lost", "hosts/lost.json", "hosts/lost.json: nothing in it is known")
    return Fleet("hosts", hosts, (lost,))


def save(name: str, report: Report) -> None:
    """Store a report for `load`, its outcomes cut down."""
    targets = tuple(_shortened(target) for target in report.diagnosis.targets)
    kept = replace(report, diagnosis=replace(report.diagnosis, targets=targets))
    data: dict[str, Any] = msgspec.to_builtins(replace(kept, facts=type(kept.facts)()))
    data["facts"] = to_wire(report.facts)
    data["baseline"] = None if report.baseline is None else sorted(report.baseline)
    DIAGNOSES.mkdir(exist_ok=True)
    text = json.dumps(data, indent=1, ensure_ascii=True) + "\n"
    (DIAGNOSES / f"{name}.json").write_text(text, encoding="utf-8")


def _shortened(target: TargetDiagnosis) -> TargetDiagnosis:
    outcomes = [o for o in target.outcomes if o.kind is OutcomeKind.FINDINGS]
    for kind in OutcomeKind:
        if kind is not OutcomeKind.FINDINGS:
            outcomes += [o for o in target.outcomes if o.kind is kind][:_KEPT]
    return replace(target, outcomes=tuple(outcomes), missing=target.missing[:8])


def _one_primary(report: Report) -> Report:
    """The primary finding is one of the findings, not its equal."""
    targets = tuple(
        replace(t, primary=next((f for f in t.findings if f == t.primary), None))
        for t in report.diagnosis.targets
    )
    return replace(report, diagnosis=replace(report.diagnosis, targets=targets))
