"""Will it fit? Weights, cache and overheads of an engine against the memory of its devices."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum

from doctor.facts import MissingFact
from doctor.matrix import Matrix
from doctor.matrix.memory import EnginePool, Residual
from doctor.sizing.cards import GIB, Card
from doctor.sizing.kv import longest_request, pool_tokens, request_bytes, token_bytes
from doctor.sizing.model import Model, Quantization
from doctor.sizing.overhead import activation_peak, graphs_after, graphs_charged, non_torch
from doctor.sizing.pools import beyond, weakest
from doctor.sizing.settings import Deployment, Serving, serving
from doctor.sizing.weights import Weights, published_weights, rank_weights, stated_weights

# Files hold nothing twice that widths would not count: widths that say more are wrong.
_TOO_LARGE = 1.25


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
    request that fits. `missing` names what was not known, `assumed` settings not stated.
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
    has_pool_model: bool = True
    missing: tuple[str, ...] = ()
    assumed: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()

    @property
    def fits(self) -> bool:
        """True only if it is sure to fit."""
        return self.verdict is Fit.FITS


def predict(matrix: Matrix, model: Model, asked: Deployment) -> Prediction:
    """Predict the memory of an engine with its arguments on these cards.

    Never raises for what is not known or cannot be read: then the verdict is uncertain,
    and `missing` or `assumed` say why.
    """
    settings = serving(matrix, model, asked)
    card = weakest(asked.cards)
    start = Prediction(
        verdict=Fit.UNCERTAIN,
        why="",
        model=model,
        serving=settings,
        card=card,
        cards=len(asked.cards),
        has_pool_model=settings.row is not None,
        assumed=settings.assumed,
        sources=settings.row.source if settings.row else (),
    )
    sized = _with_kv(_with_weights(start, matrix))
    if card is None:
        return _missing(sized, "memory of the device")
    if settings.ranks > len(asked.cards):
        there = len(asked.cards)
        why = f"{settings.ranks} ranks need {settings.ranks} devices; there are {there}"
        return replace(sized, verdict=Fit.DOES_NOT, why=why)
    if sized.weights is None or sized.token is None:
        return sized
    if settings.row is None:
        return _without_pool_model(sized, card)
    return _judged(_with_pool(sized, settings.row, card), matrix, settings.row, card)


def _missing(found: Prediction, name: str) -> Prediction:
    missing = (*found.missing, name)
    return replace(found, missing=missing, why=f"not known: {', '.join(missing)}")


def _with_weights(found: Prediction, matrix: Matrix) -> Prediction:
    """The weights of the fullest rank, or the width that is missing."""
    settings, model = found.serving, found.model
    if settings.unclear and not (model.published and settings.unclear == model.unclear):
        return _missing(found, f"bytes of the format {settings.unclear}")
    try:
        held = rank_weights(model, matrix.memory, settings.quantization, settings.tp, settings.pp)
    except MissingFact as fact:
        known = _files(found) or stated_weights(model, settings.quantization, settings.ranks)
        return replace(found, weights=known) if known else _missing(found, fact.name)
    files = _files(found)
    smaller = files is not None and (settings.unclear or held.bytes > files.bytes * _TOO_LARGE)
    return replace(found, weights=files if smaller else held)


def _files(found: Prediction) -> Weights | None:
    return published_weights(found.model, found.serving.quantization, found.serving.ranks)


def _with_kv(found: Prediction) -> Prediction:
    plan = found.serving.kv_plan()
    try:
        token = float(token_bytes(found.model, plan))
        length = found.serving.length
        request = None if length is None else request_bytes(found.model, plan, length)
    except MissingFact as fact:
        return _missing(found, fact.name)
    if request is None:
        found = _missing(found, "the longest request (max_model_len)")
    return replace(found, token=token, request=request)


def _without_pool_model(found: Prediction, card: Card) -> Prediction:
    """Weights and KV only: enough to say no, not enough to say yes."""
    held = (found.weights.bytes if found.weights else 0) + (found.request or 0)
    engine = found.serving.engine or "this engine"
    if held > card.total:
        why = f"weights and one request need {_gib(held)}; the device has {_gib(card.total)}"
        return replace(found, verdict=Fit.DOES_NOT, why=why)
    left = card.total - held
    why = f"no pool model for {engine}: weights and one request leave {_gib(left)} of the device"
    return replace(found, why=why)


def _with_pool(found: Prediction, row: EnginePool, card: Card) -> Prediction:
    settings, model = found.serving, found.model
    try:
        activation = activation_peak(model, settings, row)
    except MissingFact as fact:
        return _missing(found, fact.name)
    charged = graphs_charged(model, settings, row)
    rest = non_torch(row, settings.ranks)
    budget = int(card.total * settings.utilization)
    weights = found.weights.bytes if found.weights else 0
    pool = budget - weights - activation - rest - charged
    sized = replace(
        found,
        activation=activation,
        non_torch=rest,
        graphs=graphs_after(model, settings, row),
        graphs_charged=charged,
        budget=budget,
        pool=pool,
    )
    return _with_capacity(sized)


def _with_capacity(found: Prediction) -> Prediction:
    """What the pool holds: tokens, requests, the longest request."""
    pool, model, plan = max(found.pool or 0, 0), found.model, found.serving.kv_plan()
    hybrid = model.is_hybrid and not plan.sliding_as_full
    tokens = pool_tokens(model, plan, pool) if found.token and not hybrid else None
    return replace(
        found,
        tokens=tokens,
        longest=longest_request(model, plan, pool, model.positions),
        concurrency=pool / found.request if found.request else None,
    )


def _judged(found: Prediction, matrix: Matrix, row: EnginePool, card: Card) -> Prediction:
    """The verdict, by how far such predictions were off."""
    if found.pool is None or found.request is None:
        return found
    spread = residual(matrix, found)
    over = int(spread.over_gib * GIB + spread.over_share * found.activation)
    under = int(spread.under_gib * GIB + spread.under_share * found.activation)
    found = replace(found, pool_low=found.pool - over, pool_high=found.pool + under)
    wanted = 1 if found.serving.is_auto else (found.request or 0)
    verdict, why = _verdict(found, wanted, card)
    if verdict is Fit.FITS and beyond(row, found.serving.version):
        verdict = Fit.UNCERTAIN
        why = f"version {found.serving.version} is newer than the matrix ({row.verified_to})"
    return replace(found, verdict=verdict, why=why)


def _verdict(found: Prediction, wanted: int, card: Card) -> tuple[Fit, str]:
    pool, low, high = found.pool or 0, found.pool_low or 0, found.pool_high or 0
    if card.free is not None and card.free < found.budget:
        return Fit.DOES_NOT, f"{_gib(card.free)} are free, {_gib(found.budget)} are asked for"
    if high < wanted:
        return Fit.DOES_NOT, _shortage(found, wanted)
    if low < wanted:
        why = f"{_balance(found, wanted)}: such predictions were off by up to {_gib(pool - low)}"
        return Fit.UNCERTAIN, why
    if found.graphs > card.total - found.budget + pool - wanted:
        return Fit.UNCERTAIN, "CUDA graphs may not fit beside the pool"
    return Fit.FITS, _balance(found, wanted)


def residual(matrix: Matrix, found: Prediction) -> Residual:
    """How far predictions of this kind were off: one device, several, or parts not modelled."""
    kind = "one" if found.serving.ranks == 1 else "ranks"
    if found.model.is_multimodal or _is_padded(found.serving.quantization):
        kind = "wide"
    return next(row for row in matrix.memory.residuals if row.kind == kind)


def _is_padded(quantization: Quantization | None) -> bool:
    return quantization is not None and quantization.format.pad_hidden > 1


def _balance(found: Prediction, wanted: int) -> str:
    return f"one request needs {_gib(wanted)}, the pool is {_gib(found.pool or 0)}"


def _shortage(found: Prediction, wanted: int) -> str:
    weights = found.weights.bytes if found.weights else 0
    if weights > found.budget:
        return f"the weights need {_gib(weights)}, the engine may use {_gib(found.budget)}"
    return _balance(found, wanted)


def _gib(size: float) -> str:
    return f"{size / GIB:.2f} GiB"
