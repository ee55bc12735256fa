"""How a rule is declared and run: what it sees, what it may answer, what becomes of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from doctor.facts import Device, Expected, Facts, MissingFact, Scope, Workload
from doctor.findings import (
    Evidence,
    Finding,
    Outcome,
    OutcomeKind,
    Remedy,
    Rung,
    Severity,
)
from doctor.matrix import Matrix


class NotApplicable(Exception):  # noqa: N818 - an answer, not a failure
    """Raised by a rule whose question does not arise here; says why."""


@dataclass(frozen=True)
class Case:
    """What one rule call sees: one scope with one workload (or none) on some devices."""

    facts: Facts
    scope: Scope
    workload: Workload | None = None
    devices: tuple[Device, ...] = ()
    expected: Expected = Expected()

    @property
    def nvidia_devices(self) -> tuple[Device, ...]:
        """The NVIDIA devices of this case."""
        return tuple(d for d in self.devices if d.vendor == "nvidia")

    def need_vendor(self, vendor: str) -> tuple[Device, ...]:
        """Devices of `vendor`; raises `NotApplicable` if it was observed that there are none.

        Raises `MissingFact` if the devices of the host are unknown.
        """
        self.facts.devices.present("devices")
        mine = tuple(d for d in self.devices if d.vendor == vendor)
        if not mine:
            raise NotApplicable(f"no {vendor} device")
        return mine


@dataclass(frozen=True)
class Fault:
    """What a rule yields; the engine adds code, cause and rung.

    `severity` overrides the rule's own; `subject` defaults to the scope.
    """

    message: str
    evidence: tuple[Evidence, ...] = ()
    remedies: tuple[Remedy, ...] = ()
    sources: tuple[str, ...] = ()
    subject: str = ""
    severity: Severity | None = None
    extrapolated: str = ""


RuleBody = Callable[[Case, Matrix], Iterator[Fault]]


@dataclass(frozen=True)
class Rule:
    """A rule with its metadata. `gate`: a verdict is worthless while it cannot tell."""

    code: str
    cause: str
    severity: Severity
    body: RuleBody
    gate: bool = False

    @property
    def name(self) -> str:
        """The function's name, which states the fault."""
        return getattr(self.body, "__name__", "")

    @property
    def page(self) -> str:
        """The docstring, which is the page that `doctor explain` prints."""
        return self.body.__doc__ or ""


def rule(
    code: str, cause: str, severity: Severity, gate: bool = False
) -> Callable[[RuleBody], Rule]:
    """Attach metadata to a rule body. Registers nothing: `RULES` is the list."""

    def attach(body: RuleBody) -> Rule:
        return Rule(code=code, cause=cause, severity=severity, body=body, gate=gate)

    return attach


def page_of(cause: str, rules: tuple[Rule, ...]) -> str:
    """The first rule of a cause, whose page explains it; what compares with the past is last."""
    codes = [rule.code for rule in rules if rule.cause == cause]
    return min(codes, key=lambda code: code.startswith("DFT"), default="")


def run_rule(item: Rule, case: Case, matrix: Matrix) -> Outcome:
    """Run one rule on one case. Never raises: a crash is an outcome too."""
    outcome = Outcome(item.code, item.cause, OutcomeKind.CLEAN, gate=item.gate)
    try:
        faults = list(item.body(case, matrix))
    except NotApplicable as why:
        return replace(outcome, kind=OutcomeKind.NOT_APPLICABLE, reason=str(why))
    except MissingFact as fact:
        reason = f"{fact.reason.value} {fact.at}".strip()
        return replace(outcome, kind=OutcomeKind.CANNOT_TELL, missing=fact.name, reason=reason)
    except Exception as bug:  # one broken rule must not take the others' answers away
        return replace(outcome, kind=OutcomeKind.CRASHED, reason=repr(bug)[:500])
    if not faults:
        return outcome
    found = tuple(_finding(item, fault, case, matrix) for fault in faults)
    return replace(outcome, kind=OutcomeKind.FINDINGS, findings=found)


def _finding(item: Rule, fault: Fault, case: Case, matrix: Matrix) -> Finding:
    severity = fault.severity or item.severity
    if fault.extrapolated and severity is Severity.ERROR:
        # Beyond what a claim was verified for, nothing is certain enough for an error.
        severity = Severity.WARNING
    return Finding(
        code=item.code,
        cause=item.cause,
        severity=severity,
        rung=Rung(matrix.causes[item.cause].rung or Rung.SERVING),
        message=fault.message,
        subject=fault.subject or case.scope.id,
        evidence=fault.evidence,
        remedies=_first_stands_alone(fault.remedies),
        sources=fault.sources,
        extrapolated=fault.extrapolated,
    )


def _first_stands_alone(remedies: tuple[Remedy, ...]) -> tuple[Remedy, ...]:
    """Rules join ways by "or"; where the way before it does not apply, nothing is joined."""
    if not remedies or not remedies[0].action.startswith("or "):
        return remedies
    return (replace(remedies[0], action=remedies[0].action.removeprefix("or ")), *remedies[1:])


__all__ = [
    "Case",
    "Evidence",
    "Fault",
    "NotApplicable",
    "Remedy",
    "Rule",
    "Severity",
    "page_of",
    "rule",
    "run_rule",
]
