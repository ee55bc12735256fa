"""Where no rule decides about what somebody reports: the cause that such reports mostly have."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import chain

from doctor.facts import REPORTED
from doctor.findings import (
    Evidence,
    Finding,
    OutcomeKind,
    Remedy,
    Rung,
    Severity,
    Suspect,
    TargetDiagnosis,
    Verdict,
)
from doctor.likelihood import Likely, features, likeliest
from doctor.matrix import Matrix
from doctor.rules.engine import Case, Rule, page_of

# The share of sound hosts among such reports up to which it is worth to name a fault.
_SOUND_AT_MOST = {Verdict.CANNOT_TELL: 0.5, Verdict.PASS: 0.25}


def with_likeliest(
    target: TargetDiagnosis, case: Case, matrix: Matrix, rules: tuple[Rule, ...]
) -> TargetDiagnosis:
    """The target with the likeliest cause as a note, if it is a report that nothing decides.

    The verdict stays: what most such reports turned out to be is a place to look first.
    """
    if target.candidates:
        return target
    sound = _SOUND_AT_MOST.get(target.verdict, 0.0)
    found = likeliest(features(case.facts, matrix), matrix.likelihood, sound)
    code = _code(found[0].cause, target, rules) if found else ""
    if not code:
        return target
    first = _finding(found[0], code, target, matrix)
    rest = (f for f in target.findings if (f.code, f.cause) != (first.code, first.cause))
    return replace(
        target,
        primary=first,
        findings=(first, *rest),
        candidates=tuple(_suspects(found, target)),
    )


def _code(cause: str, target: TargetDiagnosis, rules: tuple[Rule, ...]) -> str:
    """The rule that noted it, or would decide it with its facts, else the first of the cause."""
    noted = (f.code for f in target.findings if f.cause == cause)
    unsure = (
        o.code for o in target.outcomes if o.cause == cause and o.kind is OutcomeKind.CANNOT_TELL
    )
    return next(chain(noted, unsure), page_of(cause, rules))


def _finding(likely: Likely, code: str, target: TargetDiagnosis, matrix: Matrix) -> Finding:
    """What a rule noted of this cause, or a note that rests on the words of the report alone."""
    cause = matrix.causes[likely.cause]
    often = f"reports as clear as this one were it in {likely.right} of {likely.reports} cases"
    look = Remedy(
        f"see first whether it is that; much the same was reported in {', '.join(likely.alike)}"
    )
    noted = next((f for f in target.findings if f.code == code and f.cause == likely.cause), None)
    if noted is not None:
        told = f"{noted.message}; not decided, but {often}"
        return replace(noted, message=told, remedies=(*noted.remedies, look))
    return Finding(
        code=code,
        cause=likely.cause,
        severity=Severity.INFO,
        rung=Rung(cause.rung or Rung.SERVING),
        message=f"not decided; likeliest: {cause.text} ({often})",
        subject=REPORTED,
        evidence=tuple(Evidence(word) for word in likely.because),
        remedies=(look,),
        sources=likely.alike,
    )


def _suspects(found: tuple[Likely, ...], target: TargetDiagnosis) -> Iterator[Suspect]:
    """Each cause with the facts that its rules lacked; the first only if there are such facts."""
    for likely in found:
        unsure = (o for o in target.outcomes if o.kind is OutcomeKind.CANNOT_TELL)
        lacked = dict.fromkeys(o.missing for o in unsure if o.cause == likely.cause)
        if lacked or likely is not found[0]:
            yield Suspect(likely.cause, ", ".join(lacked))
