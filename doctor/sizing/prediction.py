"""The answer of sizing: what a device would hold, and whether that fits."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from doctor.sizing.cards import GIB, Card
from doctor.sizing.model import Model
from doctor.sizing.offload import Offload
from doctor.sizing.settings import Serving
from doctor.sizing.weights import Weights


class Fit(str, Enum):
    """The answer: it fits, it does not, or the figures are too close or too few to tell."""

    FITS = "fits"
    DOES_NOT = "does-not-fit"
    UNCERTAIN = "uncertain"


@dataclass(frozen=True)
class Prediction:
    """What one device of the fullest rank would hold, in bytes, and what follows from it.

    `pool` is what is left for the KV cache, None where the engine has no pool model or a
    figure is missing; `pool_low` and `pool_high` are what it may be in fact. `request` is
    the KV of one request of the longest length, `tokens` what the pool holds (None where
    layers keep different amounts: then only `concurrency` tells), `longest` the longest
    request that fits. `offload` is how an engine shares layers with the CPU. `missing` names
    what was not known, `assumed` settings not stated.
    """

    verdict: Fit
    why: str
    model: Model
    serving: Serving
    card: Card | None
    cards: int
    weights: Weights | None = None
    activation: int = 0
    non_torch: int = 0
    graphs: int = 0
    graphs_charged: int = 0
    budget: int = 0
    pool: int | None = None
    pool_low: int | None = None
    pool_high: int | None = None
    token: float | None = None
    request: int | None = None
    tokens: int | None = None
    concurrency: float | None = None
    longest: int | None = None
    offload: Offload | None = None
    has_pool_model: bool = True
    missing: tuple[str, ...] = ()
    assumed: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()

    @property
    def fits(self) -> bool:
        """True only if it is sure to fit."""
        return self.verdict is Fit.FITS


def gib(size: float) -> str:
    """A size as people read it."""
    return f"{size / GIB:.2f} GiB"
