"""The smallest changes that would make a newer stack work; each is tried, not guessed.

User space comes before the system, and the system before the driver. A driver branch that
drops a card of the host is never among them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from doctor.matrix import Matrix
from doctor.stack import changes
from doctor.stack.changes import Change
from doctor.stack.judge import Judge
from doctor.stack.model import PROVEN, Candidate, Judged, Resolution, Unlock
from doctor.stack.search import candidates, newest_proven
from doctor.stack.summary import stack_of

_MOST = 4


def unlocks(found: Resolution, matrix: Matrix) -> tuple[Unlock, ...]:
    """Changes that give a newer proven stack than the answer has, smallest first.

    Where no single change helps, two of them together are tried.
    """
    trial = _Trial(found, matrix)
    if trial.is_newest:
        return ()
    single = tuple(changes.all_changes(found, matrix))
    gained = [u for change in single if (u := trial.unlock(change)) is not None]
    if not gained and not found.offers:
        pairs = _pairs(single)
        gained = [u for change in pairs if (u := trial.unlock(change)) is not None]
    return tuple(_useful(gained))[:_MOST]


def _useful(gained: Iterable[Unlock]) -> Iterator[Unlock]:
    """Of changes of one kind only the smallest that gains as much as any."""
    best: dict[str, Unlock] = {}
    for unlock in gained:
        held = best.get(unlock.kind)
        same = held is not None and held.gains.candidate.engine == unlock.gains.candidate.engine
        if held is None or (same and _low(unlock.gains) > _low(held.gains)):
            best[unlock.kind] = unlock
    return iter(best.values())


def _low(judged: Judged) -> tuple[object, ...]:
    version = judged.candidate.version
    return version.low if version is not None else ()


def _pairs(single: tuple[Change, ...]) -> Iterator[Change]:
    drivers = [change for change in single if change.kind == "driver"]
    others = [change for change in single if change.kind in ("python", "container", "system")]
    for driver in drivers[-1:]:
        for other in others:
            yield changes.together(other, driver)


@dataclass
class _Trial:
    """Tries changes of one answer."""

    found: Resolution
    matrix: Matrix

    @property
    def best(self) -> tuple[object, ...]:
        """The version to beat."""
        offer = self._proven
        return _low(offer) if offer is not None else ()

    @property
    def _proven(self) -> Judged | None:
        return next((offer for offer in self.found.offers if offer.state == PROVEN), None)

    @property
    def needs_compat(self) -> bool:
        """True if the answer leans on a forward-compatibility library: without it is better."""
        offer = self._proven
        return offer is not None and offer.candidate.compat is not None

    def _is_no_gain(self, candidate: Candidate) -> bool:
        low = candidate.version.low if candidate.version is not None else (0,)
        if self.needs_compat and candidate.compat is None:
            return low < self.best
        return low <= self.best

    @property
    def is_newest(self) -> bool:
        """True if the answer already is the newest version that was asked for."""
        ask = self.found.ask
        newest = next((v for _, v in self.matrix.versions(ask.engine) if ask.admits(v)), None)
        is_last = newest is None or self.best >= newest.low
        return bool(self.best) and is_last and not self.needs_compat

    def unlock(self, change: Change) -> Unlock | None:
        """The newest proven stack after the change, if it is newer than the answer."""
        judge = Judge(change.facts, self.matrix, change.ask)
        judged = newest_proven(judge, self._ways(change))
        if judged is None:
            return None
        stack = stack_of(judged.candidate, change.facts, self.matrix)
        gains = replace(judged, stack=stack)
        return Unlock(change.text, change.kind, gains, change.commands, change.reboot)

    def _ways(self, change: Change) -> Iterator[Candidate]:
        """Candidates after the change, on the same devices, down to what the answer has."""
        best = next(iter(self.found.offers), None)
        devices = best.candidate.devices if best else ()
        is_same = change.ask.engine == self.found.engine
        for candidate in candidates(self.matrix, change.ask.engine, change.facts, change.ask):
            if is_same and self._is_no_gain(candidate):
                if candidate.compat is None:
                    return
            elif change.helps(candidate.version):
                yield replace(candidate, devices=devices)
