"""The one judge: facts and matrix in, one diagnosis per target out. Pure.

check, resolve, drift, image checks and CI all call `diagnose`; none has compatibility
logic of its own.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from doctor.facts import (
    REPORTED,
    UNSTATED,
    Device,
    Expected,
    Facts,
    Reading,
    Scope,
    Version,
    Workload,
    missing,
    seen,
)
from doctor.facts.reading import Missing
from doctor.findings import (
    Diagnosis,
    Evidence,
    Finding,
    Outcome,
    OutcomeKind,
    Remedy,
    Rung,
    Severity,
    Suspect,
    TargetDiagnosis,
    Verdict,
    overall,
    verdict_of,
)
from doctor.logs import Suspicion, suspect
from doctor.matrix import Matrix
from doctor.rules.engine import Case, Rule, page_of, run_rule
from doctor.rules.image_facts import tagged

HOST_SCOPE = Scope(id="host", kind="host")


@dataclass(frozen=True)
class Request:
    """What a person asked to have judged. Empty: running engines, then scopes with an engine.

    `scopes` are scope ids; `engine` and `version` an engine wanted in them; `args` its
    engine-neutral arguments (model, quantization ...); `model` what its files tell.
    """

    scopes: tuple[str, ...] = ()
    engine: str = ""
    version: Version | None = None
    args: tuple[tuple[str, object], ...] = ()
    model: Reading[dict[str, Any]] = UNSTATED


def diagnose(
    facts: Facts,
    matrix: Matrix,
    request: Request | None = None,
    expected: Expected | None = None,
    rules: Iterable[Rule] | None = None,
) -> Diagnosis:
    """Judge every target of `facts`: run all rules on its case and rank what they found.

    `rules` defaults to all of them, imported only when there is something to judge.
    """
    targets: tuple[TargetDiagnosis, ...] = ()
    found = cases(facts, matrix, request or Request(), expected or Expected())
    if found:
        listed = tuple(_all_rules() if rules is None else rules)
        targets = tuple(judge(case, matrix, listed) for case in found)
    return Diagnosis(
        verdict=overall(targets),
        targets=targets,
        matrix_version=matrix.version,
        matrix_as_of=matrix.as_of,
    )


def _all_rules() -> tuple[Rule, ...]:
    from doctor.rules.registry import RULES

    return RULES


def cases(facts: Facts, matrix: Matrix, request: Request, expected: Expected) -> tuple[Case, ...]:
    """One case per target: what was asked for, else running or wanted engines, else scopes."""
    pairs = _targets(facts, matrix, request)
    return tuple(
        Case(facts, scope, workload, _devices(facts, workload), expected)
        for scope, workload in pairs
    )


def _targets(facts: Facts, matrix: Matrix, request: Request) -> list[tuple[Scope, Workload | None]]:
    if request.engine:
        return [_wanted(facts, request)]
    if request.scopes:
        asked = [facts.scope(scope_id) for scope_id in request.scopes]
        return [(scope, None) for scope in asked if scope is not None]
    if facts.workloads:
        return [(facts.scope(w.scope) or HOST_SCOPE, w) for w in facts.workloads]
    if facts.is_idle:
        return []
    holders = [s for s in facts.scopes if holds_engine(s, matrix)] or _told(facts, matrix)
    return [(scope, None) for scope in holders] or [(facts.scope("host") or HOST_SCOPE, None)]


def _told(facts: Facts, matrix: Matrix) -> list[Scope]:
    """Containers of which a report tells no more than the image, if the matrix knows that."""
    if facts.scope("host") is not None:
        return []
    return [scope for scope in facts.scopes if tagged(scope.image.ref, matrix) is not None]


def _wanted(facts: Facts, request: Request) -> tuple[Scope, Workload]:
    """An engine that was asked for, in the scope named, else where it is, else the host."""
    scopes = [s for s in (facts.scope(i) for i in request.scopes) if s is not None]
    scope = scopes[0] if scopes else _scope_with(facts, request.engine)
    installed = scope.package(request.engine)
    version = request.version or (installed.version if installed else None)
    workload = Workload(
        id=request.engine,
        engine=request.engine,
        scope=scope.id,
        version=seen(version, "asked for") if version else missing(Missing.NOT_STATED),
        args=seen(dict(request.args), "asked for"),
        model=request.model,
    )
    return scope, workload


def _scope_with(facts: Facts, engine: str) -> Scope:
    for scope in facts.scopes:
        if scope.package(engine) is not None:
            return scope
    return facts.scope("host") or HOST_SCOPE


def holds_engine(scope: Scope, matrix: Matrix) -> bool:
    """Tell whether a scope has a distribution of an engine or framework of the matrix."""
    names = matrix.engine_packages
    return any(package.name in names for package in scope.packages.value or ())


def _devices(facts: Facts, workload: Workload | None) -> tuple[Device, ...]:
    devices = facts.devices.value or ()
    if workload is None or not workload.devices:
        return devices
    return tuple(d for d in devices if d.id in workload.devices)


def judge(case: Case, matrix: Matrix, rules: tuple[Rule, ...]) -> TargetDiagnosis:
    """Run the rules on one case and name the primary finding."""
    return conclude(case, matrix, rules, tuple(run_rule(item, case, matrix) for item in rules))


def conclude(
    case: Case, matrix: Matrix, rules: tuple[Rule, ...], outcomes: tuple[Outcome, ...]
) -> TargetDiagnosis:
    """Name the primary finding of a case whose rules have run."""
    found = rank((f for o in outcomes for f in o.findings), matrix)
    suspicion = suspect(case.facts, case.scope, case.workload, matrix)
    findings = with_log(found, suspicion, matrix, rules) if suspicion else found
    primary = next((f for f in findings if f.severity is not Severity.INFO), None)
    target = TargetDiagnosis(
        subject=case.workload.id if case.workload else case.scope.id,
        verdict=_verdict(findings, outcomes, suspicion),
        primary=primary,
        findings=findings,
        missing=_missing(outcomes),
        outcomes=outcomes,
        candidates=_suspects(suspicion) if suspicion else (),
    )
    if primary is None and case.scope.id == REPORTED:
        # Only about a report: a host that was read is not judged by what others had.
        from doctor.undecided import with_likeliest

        return with_likeliest(target, case, matrix, rules)
    return target


def _verdict(
    findings: tuple[Finding, ...], outcomes: tuple[Outcome, ...], suspicion: Suspicion | None
) -> Verdict:
    """As the worst finding says; what a log leaves open between causes is not told."""
    worst = max(findings, key=lambda f: f.severity.weight, default=None)
    verdict = verdict_of(worst, outcomes)
    is_open = suspicion is not None and suspicion.is_open
    return Verdict.CANNOT_TELL if verdict is Verdict.PASS and is_open else verdict


def rank(findings: Iterable[Finding], matrix: Matrix) -> tuple[Finding, ...]:
    """Order findings: errors first, causes before their symptoms, lower rungs before higher.

    A finding is a symptom if a cause that `after` names, directly or through others,
    was found at the same severity.
    """
    listed = list(findings)

    def key(finding: Finding) -> tuple[int, bool, int]:
        peers = {f.cause for f in listed if f.severity is finding.severity}
        is_symptom = bool(causes_of(finding.cause, matrix) & (peers - {finding.cause}))
        return (-finding.severity.weight, is_symptom, finding.rung.height)

    return tuple(sorted(listed, key=key))


def _suspects(suspicion: Suspicion) -> tuple[Suspect, ...]:
    """What the log leaves open; nothing if it speaks of one cause only."""
    if suspicion.certain:
        return ()
    decide: dict[str, str] = {}
    for candidate in suspicion.candidates:
        decide.setdefault(candidate.cause, candidate.decide)
    return tuple(Suspect(cause, command) for cause, command in decide.items())


def with_log(
    found: tuple[Finding, ...], suspicion: Suspicion, matrix: Matrix, rules: tuple[Rule, ...]
) -> tuple[Finding, ...]:
    """Put the cause that the log speaks of first, and the finding that facts gave it before words.

    A finding by facts is preferred: an error of which a candidate of the log is a symptom,
    else one of the candidates. Otherwise the log's own words make the finding.
    """
    meant = set(suspicion.causes)
    roots = {root for cause in meant for root in causes_of(cause, matrix)}
    serious = [f for f in found if f.severity is not Severity.INFO]
    errors = [f for f in serious if f.severity is Severity.ERROR]
    chosen = next((f for f in errors if f.cause in roots), None)
    chosen = chosen or next((f for f in serious if f.cause in meant), None)
    where = "notes" if suspicion.prose else "log"
    evidence = Evidence(suspicion.match.line[:300], f"{where}, line {suspicion.match.number}")
    if chosen is not None:
        is_told = suspicion.remark or suspicion.prose
        severity = chosen.severity if is_told else Severity.ERROR
        first = replace(chosen, evidence=(*chosen.evidence, evidence), severity=severity)
        # What a person says does not put a warning before an error that facts show.
        ahead = errors if suspicion.prose and chosen not in errors else []
        return (*ahead, first, *(f for f in found if f is not chosen and f not in ahead))
    spoken = _spoken(suspicion, evidence, matrix, rules)
    if spoken is None:
        return found
    before = serious if suspicion.is_weak else []
    return (*before, spoken, *(f for f in found if f not in before))


def _spoken(
    suspicion: Suspicion, evidence: Evidence, matrix: Matrix, rules: tuple[Rule, ...]
) -> Finding | None:
    """The finding that rests on the log alone; None if it speaks of no fault of the environment.

    An error where the program printed one that has one cause, else a warning.
    """
    candidate = suspicion.candidates[0]
    cause = matrix.causes[candidate.cause]
    rung = cause.rung
    code = candidate.rule or page_of(candidate.cause, rules)
    if rung is None or not code:
        return None
    meaning = suspicion.match.signature.meaning
    return Finding(
        code=code,
        cause=candidate.cause,
        severity=Severity.WARNING if suspicion.is_hint else Severity.ERROR,
        rung=Rung(rung),
        message=f"the notes point to it: {cause.text}" if suspicion.prose else meaning,
        evidence=(evidence,),
        remedies=(Remedy(candidate.remedy),) if candidate.remedy else (),
        sources=suspicion.match.signature.source,
    )


def causes_of(cause: str, matrix: Matrix) -> frozenset[str]:
    """All causes of which `cause` is often only a symptom, transitively."""
    found: set[str] = set()
    todo = list(matrix.causes[cause].after)
    while todo:
        name = todo.pop()
        if name not in found:
            found.add(name)
            todo.extend(matrix.causes[name].after)
    return frozenset(found)


def _missing(outcomes: tuple[Outcome, ...]) -> tuple[str, ...]:
    """Facts that rules needed and did not have, gates first, each once."""
    unsure = [o for o in outcomes if o.kind is OutcomeKind.CANNOT_TELL]
    return tuple(dict.fromkeys(o.missing for o in sorted(unsure, key=lambda o: not o.gate)))
