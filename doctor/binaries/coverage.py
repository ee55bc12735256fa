"""What one card can run of one file: its groups of kernels, counted."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from doctor.facts import ComputeCapability, Coverage, Kernels


@dataclass(frozen=True)
class Tally:
    """Groups of kernels that a card runs as machine code, only by compiling PTX, or not."""

    sass: int = 0
    ptx: int = 0
    none: int = 0

    @property
    def total(self) -> int:
        """All groups."""
        return self.sass + self.ptx + self.none

    @property
    def coverage(self) -> Coverage:
        """The best that the card can do with any group."""
        return Coverage.SASS if self.sass else Coverage.PTX if self.ptx else Coverage.NONE

    def __add__(self, other: Tally) -> Tally:
        return Tally(self.sass + other.sass, self.ptx + other.ptx, self.none + other.none)


def tally(
    kernels: Iterable[Kernels], card: ComputeCapability, tegra: frozenset[ComputeCapability]
) -> Tally:
    """Count the groups. `tegra` are capabilities that share no machine code with others."""
    counts = {Coverage.SASS: 0, Coverage.PTX: 0, Coverage.NONE: 0}
    for group in kernels:
        counts[group.coverage(card, tegra)] += group.count
    return Tally(counts[Coverage.SASS], counts[Coverage.PTX], counts[Coverage.NONE])
