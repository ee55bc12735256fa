"""Find the newest stacks that the judge accepts, and keep what it refused above them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import chain

from doctor.facts import Facts
from doctor.findings import Rung, Severity
from doctor.matrix import Matrix
from doctor.matrix.learnt import is_learnt
from doctor.stack.containers import Which, images
from doctor.stack.judge import Judge
from doctor.stack.model import POSSIBLE, PROVEN, REFUSED, Ask, Candidate, Judged
from doctor.stack.setting import Setting, setting_of
from doctor.stack.wheels import wheels

ENOUGH = 3
_LEARNT = "what its files hold: it was learnt from the package index"


def candidates(matrix: Matrix, engine: str, facts: Facts, ask: Ask) -> Iterator[Candidate]:
    """Everything of an engine that could be tried on this host, newest first."""
    setting = setting_of(facts)
    rows = matrix.versions(engine)
    # Some vendors publish candidates only: then these are what there is.
    has_finals = any(not version.is_prerelease for _, version in rows)
    for release, version in rows:
        if release.yanked or not ask.admits(version, has_finals):
            continue
        ways = (
            wheels(matrix, engine, release, version, setting),
            _images(matrix, engine, (release, version), setting),
        )
        # An image for Ascend brings its toolkit; a wheel needs one on the host.
        ordered = reversed(ways) if setting.vendor == "ascend" else ways
        doubts = (_LEARNT,) if is_learnt(release) else ()
        for way in chain(*ordered):
            if ask.artifact in ("", way.kind):
                yield replace(way, unseen=(*way.unseen, *doubts)) if doubts else way
    if not matrix.releases(engine) and ask.artifact in ("", "image"):
        yield from _images(matrix, engine, (None, None), setting)


def _images(matrix: Matrix, engine: str, which: Which, setting: Setting) -> Iterator[Candidate]:
    if setting.has_containers is not False:
        yield from images(matrix, engine, which, setting)


def newest_proven(judge: Judge, proposed: Iterator[Candidate]) -> Judged | None:
    """The first candidate that is proven, without asking for what else there is."""
    for candidate in proposed:
        if not candidate.unseen:
            judged = judge.judge(candidate, must_prove=True)
            if judged.state == PROVEN:
                return judged
    return None


@dataclass
class Found:
    """What was judged so far, by state, in the order of the candidates."""

    by_state: dict[str, list[Judged]] = field(
        default_factory=lambda: {PROVEN: [], POSSIBLE: [], REFUSED: []}
    )
    lanes: dict[str, bool] = field(default_factory=dict)
    doubted: set[tuple[str, str]] = field(default_factory=set)
    last: Judged | None = None

    @property
    def is_enough(self) -> bool:
        """True if enough are proven, and one of every lane that was met."""
        return len(self.by_state[PROVEN]) >= ENOUGH and all(self.lanes.values())

    def wants(self, candidate: Candidate) -> bool:
        """Tell whether a candidate could still change the answer."""
        if candidate.unseen and self.is_doubted(candidate):
            return False
        if candidate.compat is not None and not self._may_need_compat(candidate):
            return False
        is_done = self.lanes.get(candidate.lane, False)
        return not is_done or len(self.by_state[PROVEN]) < ENOUGH

    def _may_need_compat(self, candidate: Candidate) -> bool:
        """Tell whether the same image was refused for what another libcuda could mend."""
        plain = self.last
        if plain is None or plain.candidate.artifact != candidate.artifact:
            return True
        above = (f for f in plain.findings if f.rung.height > Rung.CUDA.height)
        is_beyond = plain.state == REFUSED and any(f.severity is Severity.ERROR for f in above)
        return plain.state != PROVEN and not is_beyond

    def is_doubted(self, candidate: Candidate) -> bool:
        """Tell whether a newer one of its kind is possible, so that it must be proven to count."""
        return (candidate.lane, candidate.variant) in self.doubted

    def add(self, judged: Judged) -> None:
        """Keep one judged candidate; of possible ones only the newest of each kind."""
        candidate, self.last = judged.candidate, judged
        is_proven = judged.state == PROVEN
        self.lanes[candidate.lane] = self.lanes.get(candidate.lane, False) or is_proven
        if judged.state == POSSIBLE:
            if self.is_doubted(candidate):
                return
            self.doubted.add((candidate.lane, candidate.variant))
        self.by_state[judged.state].append(judged)


def search(judge: Judge, proposed: Iterator[Candidate]) -> Found:
    """Follow every lane down to its first proven candidate, and on until enough are proven."""
    found = Found()
    for candidate in proposed:
        if found.wants(candidate):
            found.add(judge.judge(candidate, must_prove=found.is_doubted(candidate)))
        if found.is_enough:
            break
    return found
