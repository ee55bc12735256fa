"""GPU code inside a binary: targets, alternatives, and what a card can run of them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import Optional

from doctor.facts.record import Record
from doctor.facts.values import ComputeCapability, TextValue

_TARGET = re.compile(r"(sm|compute)_(\d{1,3})([af]?)(?:@(\d{1,2})\.(\d{1,2}))?")


class Coverage(str, Enum):
    """How one card can run one build."""

    SASS = "sass"
    PTX = "ptx"
    NONE = "none"


class CodeTarget(TextValue):
    """Machine code ("sm_90a") or PTX ("compute_80@8.7": the part after @ is its ISA)."""

    __slots__ = ("arch", "isa", "kind", "suffix")

    def __init__(
        self,
        kind: Coverage,
        arch: int,
        suffix: str = "",
        isa: Optional[tuple[int, int]] = None,
    ) -> None:
        self.kind = kind
        self.arch = arch
        self.suffix = suffix
        self.isa = isa

    @classmethod
    @lru_cache(maxsize=1024)
    def parse(cls, text: str) -> CodeTarget:
        """Read "sm_86", "sm_100f", "compute_90a@8.4"; raise ValueError for anything else."""
        match = _TARGET.fullmatch(text.strip())
        if match is None:
            raise ValueError(f"not a code target: {text[:40]!r}")
        kind = Coverage.SASS if match[1] == "sm" else Coverage.PTX
        isa = (int(match[4]), int(match[5])) if match[4] else None
        return cls(kind, int(match[2]), match[3], isa)

    @property
    def capability(self) -> ComputeCapability:
        """The compute capability that the number stands for (sm_103 is 10.3)."""
        return ComputeCapability(self.arch // 10, self.arch % 10)

    def runs_on(self, card: ComputeCapability, tegra: frozenset[ComputeCapability]) -> bool:
        """Tell whether `card` can load this code (PTX: whether it could be compiled for it).

        Plain SASS runs on the same major with an equal or higher minor; `a` only on
        exactly its capability; `f` within its major, upwards; PTX upwards across
        majors. `tegra` capabilities never share SASS with other parts.
        Source: CUDA C++ Programming Guide, "Compute Capability" and "Family-specific".
        """
        own = self.capability
        if self.suffix == "a":
            return own == card
        upwards = own.major == card.major and own.minor <= card.minor
        if self.suffix == "f":
            return upwards
        if self.kind is Coverage.PTX:
            return own <= card
        if own != card and (own in tegra or card in tegra):
            return False
        return upwards

    def __str__(self) -> str:
        prefix = "sm_" if self.kind is Coverage.SASS else "compute_"
        isa = f"@{self.isa[0]}.{self.isa[1]}" if self.isa else ""
        return f"{prefix}{self.arch}{self.suffix}{isa}"


@dataclass(frozen=True, repr=False, eq=False)
class Kernels(Record):
    """`count` containers whose entries are alternatives for the same kernels."""

    targets: tuple[CodeTarget, ...]
    count: int = 1

    def coverage(self, card: ComputeCapability, tegra: frozenset[ComputeCapability]) -> Coverage:
        """Best way in which `card` can run these kernels: SASS before PTX before none."""
        usable = {t.kind for t in self.targets if t.runs_on(card, tegra)}
        if Coverage.SASS in usable:
            return Coverage.SASS
        return Coverage.PTX if Coverage.PTX in usable else Coverage.NONE
