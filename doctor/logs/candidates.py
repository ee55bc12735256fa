"""Tell the candidate causes of a log's first real error apart by facts."""

from __future__ import annotations

from dataclasses import dataclass, replace

from doctor.facts import Facts, Scope, Workload
from doctor.logs.conditions import Circumstances
from doctor.logs.fragments import find_fragments
from doctor.logs.match import LogMatch, search
from doctor.logs.text import LogText
from doctor.logs.typed import readings
from doctor.matrix import Matrix
from doctor.matrix.catalogue import Candidate


@dataclass(frozen=True)
class Suspicion:
    """The first real error of a log, and the causes that facts leave, likeliest first.

    `certain` is True if only one cause is left, or facts speak for the first; `remark` if
    the log holds no error that is known, only information and warnings; `prose` if a person
    wrote it.
    """

    match: LogMatch
    candidates: tuple[Candidate, ...]
    certain: bool
    remark: bool = False
    prose: bool = False

    @property
    def is_hint(self) -> bool:
        """The log does not name the cause by itself: nothing failed, or another may be meant."""
        return self.remark or self.prose or not self.certain

    @property
    def is_weak(self) -> bool:
        """No message of a program stands behind it, a part of one, or only what is said of it."""
        return self.match.signature.brief or self.match.partial or self.prose

    @property
    def is_open(self) -> bool:
        """Something failed, and which cause it has is not told."""
        return self.is_weak or not (self.certain or self.remark)

    @property
    def causes(self) -> tuple[str, ...]:
        """Names of the causes that are left."""
        return tuple(dict.fromkeys(candidate.cause for candidate in self.candidates))


def suspect(
    facts: Facts, scope: Scope, workload: Workload | None, matrix: Matrix
) -> Suspicion | None:
    """Read the logs of a workload (and those that belong to none); None if they say nothing.

    What a person wrote is read where they say nothing.
    """
    own = workload.id if workload else ""
    logs = [log for log in facts.logs if log.workload in ("", own)]
    printed = "\n".join(log.text for log in logs if not log.prose)
    found = _suspicion(printed, facts, scope, workload, matrix)
    if found:
        return found
    prose = "\n".join(log.text for log in logs if log.prose)
    said = _suspicion(prose, facts, scope, workload, matrix)
    return replace(said, prose=True) if said else None


def _suspicion(
    text: str, facts: Facts, scope: Scope, workload: Workload | None, matrix: Matrix
) -> Suspicion | None:
    if not text:
        return None
    engine = workload.engine if workload else ""
    weak = None
    for reading in readings(text):
        log = LogText(reading)
        case = Circumstances(facts, scope, workload, log, matrix)
        found = _first(search(log, matrix.signatures, engine), case)
        if found and not found.is_weak:
            return found
        weak = weak or _first(find_fragments(log, matrix.signatures, engine), case) or found
    return weak


def _first(matches: list[LogMatch], case: Circumstances) -> Suspicion | None:
    """The first match with a cause that facts leave; that something failed before comes last."""
    remark = all(match.remark for match in matches)
    wrapper = None
    for match in matches:
        left = _sort(match.signature.candidates, replace(case, match=match))
        if not left:
            continue
        hint = remark or match.signature.brief
        causes = tuple(candidate for candidate, _ in left)
        found = Suspicion(match.numbered(case.text), causes, _is_certain(left), hint)
        if not (match.signature.consequence and found.causes[0] == _NO_FAULT):
            return found
        wrapper = wrapper or found
    return wrapper


# That a part failed before says nothing yet, if another line says why.
_NO_FAULT = "not-environment"


def _sort(
    candidates: tuple[Candidate, ...], circumstances: Circumstances
) -> list[tuple[Candidate, bool | None]]:
    """Candidates that facts do not exclude: those that facts support, then plain, then unknown.

    A candidate without conditions is the ordinary meaning of the words.
    """
    judged = [(c, circumstances.hold(c.when)) for c in candidates]
    left = [(c, answer) for c, answer in judged if answer is not False]
    return sorted(left, key=lambda item: _order(*item))


def _order(candidate: Candidate, answer: bool | None) -> int:
    if answer is None:
        return 2
    return 0 if candidate.when else 1


def _is_certain(left: list[tuple[Candidate, bool | None]]) -> bool:
    """True if one cause is left, or facts speak for the first and not as much for another."""
    first, answer = left[0]
    likely = left
    if first.when and answer:
        likely = [(c, a) for c, a in left if c.when == first.when]
    return len({c.cause for c, _ in likely}) == 1
