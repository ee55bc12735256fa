"""Have a candidate judged: by the one judge, on hypothetical facts."""

from __future__ import annotations

from doctor.diagnose import Request, cases, conclude
from doctor.facts import Expected, Facts
from doctor.findings import Finding, Outcome, OutcomeKind, Severity, TargetDiagnosis, Verdict
from doctor.matrix import Matrix
from doctor.rules.engine import Rule, run_rule
from doctor.rules.settings import UNRECORDED
from doctor.stack.hypothesis import with_candidate
from doctor.stack.model import POSSIBLE, PROVEN, REFUSED, Ask, Candidate, Judged


class Judge:
    """Judges candidates for one host and one ask.

    A rule that refused one candidate is likely to refuse the next: those come first, then
    the gates, then all.
    """

    def __init__(self, facts: Facts, matrix: Matrix, ask: Ask) -> None:
        from doctor.rules.registry import RULES

        self._facts = facts
        self._matrix = matrix
        self._ask = ask
        self._rules: tuple[Rule, ...] = RULES
        self._gates = tuple(rule for rule in RULES if rule.gate)
        self._severity = {rule.code: rule.severity for rule in RULES}
        self._strict: tuple[Rule, ...] = ()
        self.count = 0

    def judge(self, candidate: Candidate, must_prove: bool = False) -> Judged:
        """Return the candidate as proven, possible or refused.

        With `must_prove` it stops as soon as it is clear that it is not proven.
        """
        self.count += 1
        facts = with_candidate(self._facts, candidate, self._ask, self._matrix)
        case = cases(facts, self._matrix, Request(), Expected())[0]
        done: dict[str, Outcome] = {}
        for rules in filter(None, (self._strict, self._gates, self._rules)):
            for rule in rules:
                if rule.code not in done:
                    done[rule.code] = run_rule(rule, case, self._matrix)
            outcomes = tuple(done[r.code] for r in self._rules if r.code in done)
            target = conclude(case, self._matrix, self._rules, outcomes)
            judged = self._state(candidate, target)
            self._remember(judged, target)
            if judged.state == REFUSED or (must_prove and judged.state == POSSIBLE):
                break
        return judged

    def _remember(self, judged: Judged, target: TargetDiagnosis) -> None:
        """Rules that spoke against a candidate are asked first about the next."""
        against = {f.code for f in (*_errors(target), *self._unsure(target))}
        against |= {o.code for o in target.outcomes if o.gate and o.missing}
        known = {rule.code for rule in self._strict}
        if judged.state != PROVEN and against - known:
            wanted = against | known
            self._strict = tuple(rule for rule in self._rules if rule.code in wanted)

    def _unsure(self, target: TargetDiagnosis) -> tuple[Finding, ...]:
        """Warnings of rules about errors: these could not be made certain either way."""
        warnings = (f for f in target.findings if f.severity is Severity.WARNING)
        return tuple(w for w in warnings if self._severity.get(w.code) is Severity.ERROR)

    def _state(self, candidate: Candidate, target: TargetDiagnosis) -> Judged:
        errors = _errors(target)
        if errors:
            return Judged(candidate, REFUSED, errors)
        unsure = self._unsure(target)
        lacks = [*candidate.unseen, *(w.message for w in unsure)]
        # What was asked for and is not on record, a method of quantization, is not proven.
        lacks += [o.missing for o in target.outcomes if o.missing.startswith(UNRECORDED)]
        if target.verdict is Verdict.CANNOT_TELL and unsure:
            # What speaks against it, and too little is known of it to outweigh that.
            return Judged(candidate, REFUSED, unsure)
        if target.verdict is Verdict.CANNOT_TELL:
            lacks += [o.missing for o in target.outcomes if o.gate and o.missing]
            crashed = (o for o in target.outcomes if o.kind is OutcomeKind.CRASHED)
            lacks += [f"an answer of rule {o.code}, which crashed" for o in crashed]
        if candidate.kind == "image" and not self._facts.container_engine.is_known:
            lacks.append("a container engine on the host")
        state = POSSIBLE if lacks else PROVEN
        return Judged(candidate, state, target.findings, tuple(dict.fromkeys(lacks)))


def _errors(target: TargetDiagnosis) -> tuple[Finding, ...]:
    return tuple(f for f in target.findings if f.severity is Severity.ERROR)
