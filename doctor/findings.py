"""What judgement produces: findings, outcomes and diagnoses. Data only, no wording of reports."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import Enum


class Severity(str, Enum):
    """ERROR will not work; WARNING works but will bite or is extrapolated; INFO helps."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"

    @property
    def weight(self) -> int:
        """Order for comparison: info 0, warning 1, error 2."""
        return ("info", "warning", "error").index(self.value)


class Rung(str, Enum):
    """The layer at which a cause is mended, from the bottom of the ladder up."""

    HOST = "host"
    DRIVER = "driver"
    DEVICE = "device"
    CUDA = "cuda"
    CONTAINER = "container"
    PYTHON = "python"
    FRAMEWORK = "framework"
    ENGINE = "engine"
    MODEL = "model"
    SERVING = "serving"

    @property
    def height(self) -> int:
        """Place on the ladder, 0 at the bottom."""
        return list(Rung).index(self)


class OutcomeKind(str, Enum):
    """What became of one rule on one case."""

    FINDINGS = "findings"
    CLEAN = "clean"
    NOT_APPLICABLE = "not-applicable"
    CANNOT_TELL = "cannot-tell"
    CRASHED = "crashed"


class Verdict(str, Enum):
    """The answer for one target, or for all of them."""

    PASS = "pass"  # noqa: S105 - a verdict
    FAIL = "fail"
    CANNOT_TELL = "cannot-tell"
    NOTHING_TO_JUDGE = "nothing-to-judge"


@dataclass(frozen=True)
class Evidence:
    """One observed fact ("driver 535.129.03") and where it was read."""

    fact: str
    at: str = ""


@dataclass(frozen=True)
class Remedy:
    """One way to mend it: what changes, commands to type, who must act.

    `commands` are already quoted for a shell. `role` names the provisioning role that
    can do it, "" if only a person can. `undo` is exact, needs-reboot or none.
    """

    action: str
    commands: tuple[str, ...] = ()
    role: str = ""
    risk: str = ""
    reboot: bool = False
    undo: str = "exact"


@dataclass(frozen=True)
class Finding:
    """One fault of one subject (a scope or device id), with evidence and remedies.

    `sources` are those of the matrix rows that decided it.
    """

    code: str
    cause: str
    severity: Severity
    rung: Rung
    message: str
    subject: str = ""
    evidence: tuple[Evidence, ...] = ()
    remedies: tuple[Remedy, ...] = ()
    sources: tuple[str, ...] = ()
    extrapolated: str = ""


@dataclass(frozen=True)
class Outcome:
    """One rule on one case; `missing` names the fact that was needed and not known."""

    code: str
    cause: str
    kind: OutcomeKind
    gate: bool = False
    findings: tuple[Finding, ...] = ()
    missing: str = ""
    reason: str = ""


@dataclass(frozen=True)
class Suspect:
    """A cause that a log may speak of, and the command or fact that would settle it."""

    cause: str
    decide: str = ""


@dataclass(frozen=True)
class TargetDiagnosis:
    """The judgement of one target: one primary finding, the rest, and what was missing.

    `candidates` are the causes that a log leaves open where facts do not decide.
    """

    subject: str
    verdict: Verdict
    primary: Finding | None = None
    findings: tuple[Finding, ...] = ()
    missing: tuple[str, ...] = ()
    outcomes: tuple[Outcome, ...] = field(default=(), repr=False)
    candidates: tuple[Suspect, ...] = ()


@dataclass(frozen=True)
class Diagnosis:
    """All targets of one host."""

    verdict: Verdict
    targets: tuple[TargetDiagnosis, ...]
    matrix_version: str = ""
    matrix_as_of: str = ""


def verdict_of(primary: Finding | None, outcomes: tuple[Outcome, ...]) -> Verdict:
    """The answer for one target: an error fails it, an open gate leaves it undecided."""
    if primary is not None and primary.severity is Severity.ERROR:
        return Verdict.FAIL
    undecided = (OutcomeKind.CANNOT_TELL, OutcomeKind.CRASHED)
    if any(o.gate and o.kind in undecided for o in outcomes):
        return Verdict.CANNOT_TELL
    return Verdict.PASS


def left_open(diagnosis: Diagnosis) -> Diagnosis:
    """Of what passed it cannot be told whether it works: somebody has a reason to ask."""
    targets = tuple(
        replace(t, verdict=Verdict.CANNOT_TELL) if t.verdict is Verdict.PASS else t
        for t in diagnosis.targets
    )
    return replace(diagnosis, targets=targets, verdict=overall(targets))


def overall(targets: tuple[TargetDiagnosis, ...]) -> Verdict:
    """The answer for all targets: the worst of theirs."""
    verdicts = {t.verdict for t in targets}
    for verdict in (Verdict.FAIL, Verdict.CANNOT_TELL, Verdict.PASS):
        if verdict in verdicts:
            return verdict
    return Verdict.NOTHING_TO_JUDGE
