"""Have a candidate judged: by the one judge, on hypothetical facts."""

from __future__ import annotations

from doctor.diagnose import diagnose
from doctor.facts import Facts
from doctor.findings import Finding, Severity, TargetDiagnosis, Verdict
from doctor.matrix import Matrix
from doctor.rules.engine import Rule
from doctor.stack.hypothesis import with_candidate
from doctor.stack.model import POSSIBLE, PROVEN, REFUSED, Ask, Candidate, Judged


class Judge:
    """Judges candidates for one host and one ask; gates come first, for most end there."""

    def __init__(self, facts: Facts, matrix: Matrix, ask: Ask) -> None:
        from doctor.rules.registry import RULES

        self._facts = facts
        self._matrix = matrix
        self._ask = ask
        self._all: tuple[Rule, ...] = RULES
        self._severity = {rule.code: rule.severity for rule in RULES}
        self._first = tuple(r for r in RULES if r.gate or r.code.startswith("CTR1"))
        self.count = 0

    def judge(self, candidate: Candidate) -> Judged:
        """Return the candidate as proven, possible or refused."""
        self.count += 1
        facts = with_candidate(self._facts, candidate, self._ask, self._matrix)
        target = self._target(facts, self._first)
        if not _errors(target):
            target = self._target(facts, self._all)
        return self._state(candidate, target)

    def _target(self, facts: Facts, rules: tuple[Rule, ...]) -> TargetDiagnosis:
        return diagnose(facts, self._matrix, rules=rules).targets[0]

    def _state(self, candidate: Candidate, target: TargetDiagnosis) -> Judged:
        errors = _errors(target)
        if errors:
            return Judged(candidate, REFUSED, errors)
        warnings = tuple(f for f in target.findings if f.severity is Severity.WARNING)
        # A rule about an error that could only warn was not certain either way.
        unsure = tuple(w for w in warnings if self._severity.get(w.code) is Severity.ERROR)
        lacks = [*candidate.unseen, *(w.message for w in unsure)]
        if target.verdict is Verdict.CANNOT_TELL:
            lacks += [o.missing for o in target.outcomes if o.gate and o.missing]
        if candidate.kind == "image" and not self._facts.container_engine.is_known:
            lacks.append("a container engine on the host")
        state = POSSIBLE if lacks else PROVEN
        return Judged(candidate, state, target.findings, tuple(dict.fromkeys(lacks)), warnings)


def _errors(target: TargetDiagnosis) -> tuple[Finding, ...]:
    return tuple(f for f in target.findings if f.severity is Severity.ERROR)
