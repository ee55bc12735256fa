"""Figures against targets: met, missed, or not seen. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum

from doctor.matrix.serving import TargetRow
from doctor.smoke.bench.figures import Level


class State(str, Enum):
    """Not seen is not met."""

    MET = "met"
    MISSED = "missed"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Judgement:
    """One target: what was wanted (`low`, `high`, both in `unit`) and what was seen.

    `is_error` says that missing it is a failure, not a warning; `source` where it comes from.
    """

    key: str
    what: str
    state: State
    value: float | None
    low: float | None
    high: float | None
    unit: str
    is_error: bool
    remedy: str
    source: str

    @property
    def fails(self) -> bool:
        """True if the answer to the whole test is no because of it."""
        return self.is_error and self.state is State.MISSED


_SEEN: dict[str, Callable[[Level], float | None]] = {
    "error_rate": lambda level: level.error_rate if level.requests else None,
    "ttft_p99": lambda level: level.ttft.p99 if level.ttft else None,
    "tpot_p99": lambda level: level.tpot.p99 if level.tpot else None,
    "device_utilization": lambda level: level.devices.utilization if level.devices else None,
    "device_memory": lambda level: level.devices.memory if level.devices else None,
}


def judge(
    level: Level, targets: Sequence[TargetRow], ttft_limit_s: float | None = None
) -> tuple[Judgement, ...]:
    """Hold one load against the targets. A limit that a person named is not only a warning."""
    return tuple(_judged(level, row, ttft_limit_s) for row in targets if row.key in _SEEN)


def _judged(level: Level, row: TargetRow, ttft_limit_s: float | None) -> Judgement:
    own = ttft_limit_s is not None and row.key == "ttft_p99"
    high = ttft_limit_s if own else row.high
    value = _SEEN[row.key](level)
    return Judgement(
        key=row.key,
        what=row.what,
        state=_state(value, row.low, high),
        value=value,
        low=row.low,
        high=high,
        unit=row.unit,
        is_error=own or row.severity == "error",
        remedy=row.remedy,
        source="named by --ttft-limit" if own else row.source[0],
    )


def _state(value: float | None, low: float | None, high: float | None) -> State:
    if value is None:
        return State.UNKNOWN
    is_good = (low is None or value >= low) and (high is None or value <= high)
    return State.MET if is_good else State.MISSED
