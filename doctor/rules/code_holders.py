"""A package with GPU code, and what of it a card can run."""

from __future__ import annotations

from dataclasses import dataclass

from doctor.facts import CodeTarget, ComputeCapability, Coverage, Kernels, Version
from doctor.findings import Evidence


@dataclass(frozen=True)
class Holder:
    """A package with GPU code.

    `is_core`: the engine cannot run a model without it. `is_assumed`: the code is that of
    the default artefact of the version, which a vendor's build of it need not share.
    """

    name: str
    kernels: tuple[Kernels, ...]
    evidence: Evidence
    is_core: bool = True
    is_assumed: bool = False
    version: Version | None = None
    cuda: Version | None = None
    sources: tuple[str, ...] = ()

    def count(
        self, how: Coverage, card: ComputeCapability, tegra: frozenset[ComputeCapability]
    ) -> int:
        """Number of containers that `card` runs in that way."""
        return sum(k.count for k in self.kernels if k.coverage(card, tegra) is how)

    def usable_ptx(
        self, card: ComputeCapability, tegra: frozenset[ComputeCapability]
    ) -> tuple[CodeTarget, ...]:
        """PTX that could be compiled for `card`."""
        found = (t for k in self.kernels for t in k.targets if t.kind is Coverage.PTX)
        return tuple(t for t in dict.fromkeys(found) if t.runs_on(card, tegra))

    @property
    def targets(self) -> str:
        """All targets, for messages."""
        names = dict.fromkeys(str(t) for k in self.kernels for t in k.targets)
        return " ".join(names) or "no GPU code"
