"""The result of a load test."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from enum import Enum

from doctor.errors import ExitCode
from doctor.smoke.bench.comparison import Comparison
from doctor.smoke.bench.figures import Level
from doctor.smoke.bench.judge import Judgement
from doctor.smoke.bench.knee import Knee
from doctor.smoke.bench.lengths import Lengths


class BenchVerdict(str, Enum):
    """MEASURED: nothing speaks against it. NOT_MEASURED: no request succeeded."""

    MEASURED = "measured"
    MISSED = "missed"
    REGRESSED = "regressed"
    NOT_MEASURED = "not-measured"
    INTERRUPTED = "interrupted"


EXIT_CODES = {
    BenchVerdict.MEASURED: ExitCode.OK,
    BenchVerdict.MISSED: ExitCode.NO,
    BenchVerdict.REGRESSED: ExitCode.NO,
    BenchVerdict.NOT_MEASURED: ExitCode.FAILED,
    BenchVerdict.INTERRUPTED: ExitCode.INTERRUPTED,
}


@dataclass(frozen=True)
class BenchOutcome:
    """What was measured, load by load.

    `forced` says whether answers had the lengths asked for; `judged` is the load that was
    held against the targets: the knee, or the last one. `seconds` is the time of it all.
    """

    url: str
    model: str
    lengths: Lengths
    chat: bool
    forced: bool
    context: int | None
    seed: int
    levels: tuple[Level, ...]
    knee: Knee | None = None
    judged: int | None = None
    judgements: tuple[Judgement, ...] = ()
    comparison: Comparison | None = None
    notes: tuple[str, ...] = ()
    interrupted: bool = False
    began: str = ""
    seconds: float = 0.0

    @property
    def verdict(self) -> BenchVerdict:
        """The worst that can be said."""
        if self.interrupted:
            return BenchVerdict.INTERRUPTED
        if not any(level.succeeded for level in self.levels):
            return BenchVerdict.NOT_MEASURED
        if self.comparison is not None and self.comparison.is_worse:
            return BenchVerdict.REGRESSED
        if any(judgement.fails for judgement in self.judgements):
            return BenchVerdict.MISSED
        return BenchVerdict.MEASURED


def digest(lengths: Lengths) -> str:
    """What tells these lengths from others."""
    return hashlib.sha256(repr(lengths.pairs).encode()).hexdigest()[:12]
