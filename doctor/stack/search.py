"""Find the newest stacks that the judge accepts, and keep what it refused above them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain

from doctor.facts import Facts, Version
from doctor.matrix import Matrix
from doctor.matrix.model import Release
from doctor.stack.containers import images
from doctor.stack.judge import Judge
from doctor.stack.model import POSSIBLE, PROVEN, REFUSED, Ask, Candidate, Judged
from doctor.stack.setting import Setting, setting_of
from doctor.stack.wheels import wheels

ENOUGH = 3


def candidates(matrix: Matrix, engine: str, facts: Facts, ask: Ask) -> Iterator[Candidate]:
    """Everything of an engine that could be tried on this host, newest first."""
    setting = setting_of(facts)
    for release, version in matrix.versions(engine):
        if release.yanked or not ask.admits(version):
            continue
        ways = chain(
            wheels(matrix, engine, release, version, setting),
            _images(matrix, engine, (release, version), facts, setting),
        )
        yield from (way for way in ways if ask.artifact in ("", way.kind))
    if not matrix.releases(engine) and ask.artifact in ("", "image"):
        yield from _images(matrix, engine, (None, None), facts, setting)


def _images(
    matrix: Matrix,
    engine: str,
    which: tuple[Release | None, Version | None],
    facts: Facts,
    setting: Setting,
) -> Iterator[Candidate]:
    if setting.has_containers is not False:
        yield from images(matrix, engine, *which, facts, setting)


@dataclass
class Found:
    """What was judged so far, by state, in the order of the candidates."""

    by_state: dict[str, list[Judged]] = field(
        default_factory=lambda: {PROVEN: [], POSSIBLE: [], REFUSED: []}
    )
    lanes: dict[str, bool] = field(default_factory=dict)
    doubted: set[tuple[str, str]] = field(default_factory=set)

    @property
    def is_enough(self) -> bool:
        """True if enough are proven, and one of every lane that was met."""
        return len(self.by_state[PROVEN]) >= ENOUGH and all(self.lanes.values())

    def wants(self, candidate: Candidate) -> bool:
        """Tell whether a candidate could still change the answer."""
        if candidate.unseen and (candidate.lane, candidate.variant) in self.doubted:
            return False  # It can be possible at best, and a newer one is.
        is_done = self.lanes.get(candidate.lane, False)
        return not is_done or len(self.by_state[PROVEN]) < ENOUGH

    def add(self, judged: Judged) -> None:
        """Keep one judged candidate."""
        self.by_state[judged.state].append(judged)
        lane = judged.candidate.lane
        if judged.state == POSSIBLE:
            self.doubted.add((lane, judged.candidate.variant))
        self.lanes[lane] = self.lanes.get(lane, False) or judged.state == PROVEN


def search(judge: Judge, proposed: Iterator[Candidate]) -> Found:
    """Follow every lane down to its first proven candidate, and on until enough are proven."""
    found = Found()
    for candidate in proposed:
        if found.wants(candidate):
            found.add(judge.judge(candidate))
        if found.is_enough:
            break
    return found
