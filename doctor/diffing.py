"""What the difference between two drivers, or two versions of an engine, means on one host."""

from __future__ import annotations

from dataclasses import dataclass

from doctor.diagnose import diagnose
from doctor.examine import Sources, gather
from doctor.facts import Facts, Specifier
from doctor.findings import Finding, Severity
from doctor.matrix import Matrix
from doctor.matrix.diff import Difference, Point, difference, parse_point
from doctor.stack.changes import with_driver
from doctor.stack.judge import Judge
from doctor.stack.model import REFUSED, Ask, Judged, Stack
from doctor.stack.search import candidates, newest_proven
from doctor.stack.setting import setting_of
from doctor.stack.summary import stack_of


@dataclass(frozen=True)
class Answer:
    """One subject on both sides: a stack or why there is none."""

    subject: str
    old: str
    new: str


@dataclass(frozen=True)
class Comparison:
    """What differs, and what it means on a host: `gone` and `come` are findings."""

    difference: Difference
    source: str = ""
    answers: tuple[Answer, ...] = ()
    gone: tuple[Finding, ...] = ()
    come: tuple[Finding, ...] = ()


def compare(matrix: Matrix, old: str, new: str, sources: Sources | None) -> Comparison:
    """Compare two points, on a host if one is named; raises UsageError for what is not known."""
    found = difference(matrix, parse_point(matrix, old), parse_point(matrix, new))
    if sources is None:
        return Comparison(found)
    gathered = gather(sources)
    if found.old.engine:
        return _engines(matrix, found, gathered.facts, gathered.source)
    return _drivers(matrix, found, gathered.facts, gathered.source)


def _drivers(matrix: Matrix, found: Difference, facts: Facts, source: str) -> Comparison:
    sides = [with_driver(facts, point.version, matrix) for point in (found.old, found.new)]
    findings = [_findings(matrix, side) for side in sides]
    vendor = setting_of(facts).vendor
    rows = (row for row in matrix.stacks.goals if row.vendor == vendor)
    names = tuple(dict.fromkeys(row.engine for row in rows))
    return Comparison(
        found,
        source,
        tuple(_newest(matrix, name, (sides[0], sides[1])) for name in names),
        *_apart(findings[0], findings[1]),
    )


def _findings(matrix: Matrix, facts: Facts) -> tuple[Finding, ...]:
    """What is wrong with the host and its targets, notes left out."""
    targets = diagnose(facts, matrix).targets
    every = (f for target in targets for f in target.findings)
    return tuple(f for f in every if f.severity is not Severity.INFO)


def _apart(
    old: tuple[Finding, ...], new: tuple[Finding, ...]
) -> tuple[tuple[Finding, ...], tuple[Finding, ...]]:
    """Findings that go and that come, told apart by code and subject."""
    before, after = ({(f.code, f.subject) for f in side} for side in (old, new))
    gone = tuple(f for f in old if (f.code, f.subject) not in after)
    return gone, tuple(f for f in new if (f.code, f.subject) not in before)


def _newest(matrix: Matrix, engine: str, sides: tuple[Facts, Facts]) -> Answer:
    """The newest proven stack of an engine on both sides."""
    stacks = [_proven(matrix, engine, facts) for facts in sides]
    old, new = ("none" if stack is None else _short(stack) for stack in stacks)
    return Answer(engine, old, new)


def _proven(matrix: Matrix, engine: str, facts: Facts) -> Stack | None:
    ask = Ask(engine=engine)
    found = newest_proven(Judge(facts, matrix, ask), candidates(matrix, engine, facts, ask))
    return stack_of(found.candidate, facts, matrix) if found else None


def _short(stack: Stack) -> str:
    build = f", CUDA {stack.cuda}" if stack.cuda else ""
    env = "".join(f", {name}={value}" for name, value in stack.env)
    return f"{stack.version or stack.artifact} ({stack.kind}{build}{env})"


def _engines(matrix: Matrix, found: Difference, facts: Facts, source: str) -> Comparison:
    sides = [_judged(matrix, point, facts) for point in (found.old, found.new)]
    answers = tuple(_states(sides[0], sides[1]))
    findings = [
        tuple(f for judged in side[:1] for f in judged.findings if f.severity is not Severity.INFO)
        for side in sides
    ]
    return Comparison(found, source, answers, *_apart(findings[0], findings[1]))


def _judged(matrix: Matrix, point: Point, facts: Facts) -> list[Judged]:
    """Every way to run that version here, the best first."""
    ask = Ask(engine=point.engine, spec=Specifier.parse(f"=={point.version.public}"))
    judge = Judge(facts, matrix, ask)
    ways = candidates(matrix, point.engine, facts, ask)
    order = {"proven": 0, "possible": 1, REFUSED: 2}
    return sorted((judge.judge(way) for way in ways), key=lambda judged: order[judged.state])


def _states(old: list[Judged], new: list[Judged]) -> list[Answer]:
    kinds = dict.fromkeys(j.candidate.lane for j in (*old, *new))
    return [Answer(kind, _state(old, kind), _state(new, kind)) for kind in kinds]


def _state(side: list[Judged], lane: str) -> str:
    found = next((j for j in side if j.candidate.lane == lane), None)
    if found is None:
        return "not published"
    if found.state != REFUSED:
        return found.state
    return f"refused: {found.findings[0].message}"
