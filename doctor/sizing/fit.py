"""Will it fit? Weights, cache and overheads of an engine against the memory of its devices."""

from __future__ import annotations

from dataclasses import replace

from doctor.facts import MissingFact
from doctor.matrix import Matrix
from doctor.matrix.memory import EnginePool, LayerSplit, Residual
from doctor.sizing.cards import GIB, Card
from doctor.sizing.kv import longest_request, pool_tokens, request_bytes, token_bytes
from doctor.sizing.model import Model, Quantization
from doctor.sizing.offload import Offload, asked_of, offload
from doctor.sizing.overhead import activation_peak, graphs_after, graphs_charged, non_torch
from doctor.sizing.pools import beyond, split_row, weakest
from doctor.sizing.prediction import Fit, Prediction, gib
from doctor.sizing.settings import Deployment, serving
from doctor.sizing.weights import Weights, published_weights, rank_weights, stated_weights

# Files hold nothing twice that widths would not count: widths that say more are wrong.
_TOO_LARGE = 1.25


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
    split = split_row(matrix.memory, asked.engine)
    if split is not None:
        return _offloaded(start, matrix, split, asked)
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


def _offloaded(
    start: Prediction, matrix: Matrix, split: LayerSplit, asked: Deployment
) -> Prediction:
    """For engines that leave to the CPU what does not fit."""
    start = replace(start, sources=split.source, has_pool_model=True)
    if start.serving.unclear:
        return _missing(start, f"bytes of the format {start.serving.unclear}")
    if start.card is None:
        return _missing(start, "memory of the device")
    try:
        shared = offload(
            matrix.memory, start.model, start.serving, split, asked_of(asked.cards, asked.args)
        )
    except MissingFact as fact:
        return _missing(start, fact.name)
    verdict, why = _shared_verdict(matrix, shared)
    own = start.serving.length_is_assumed
    notes = (f"context {shared.context}",) if own else ()
    return replace(
        start,
        verdict=verdict,
        why=why,
        weights=shared.weights,
        activation=shared.scratch,
        token=shared.cache / shared.context,
        request=shared.cache,
        offload=shared,
        assumed=notes,
    )


def _shared_verdict(matrix: Matrix, shared: Offload) -> tuple[Fit, str]:
    if shared.held < shared.wanted:
        why = f"{shared.held} of {shared.wanted} layers fit; the CPU would compute the others"
        return Fit.DOES_NOT, why
    spread = next(row for row in matrix.memory.residuals if row.kind == "split")
    rooms = [(share.card.free or share.card.total) - share.bytes for share in shared.shares]
    if rooms and min(rooms) < spread.over_gib * GIB:
        return Fit.UNCERTAIN, f"all layers fit, with {gib(max(min(rooms), 0))} to spare"
    return Fit.FITS, f"all {shared.wanted} layers fit"


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
    requests = (found.request or 0) * found.serving.requests
    held = (found.weights.bytes if found.weights else 0) + requests
    engine = found.serving.engine or "this engine"
    if held > card.total:
        why = f"weights and KV need {gib(held)}; the device has {gib(card.total)}"
        return replace(found, verdict=Fit.DOES_NOT, why=why)
    left = card.total - held
    why = f"no pool model for {engine}: weights and KV leave {gib(left)} of the device"
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
    under += int(spread.under_graphs * found.graphs_charged)
    found = replace(found, pool_low=found.pool - over, pool_high=found.pool + under)
    wanted = 1 if found.serving.is_auto else (found.request or 0) * found.serving.requests
    verdict, why = _verdict(found, wanted, card)
    doubt = _doubt(found, row)
    if doubt and verdict is Fit.FITS:
        verdict, why = Fit.UNCERTAIN, f"{why}; {doubt}"
    return replace(found, verdict=verdict, why=why)


def _doubt(found: Prediction, row: EnginePool) -> str:
    """What speaks against a clean pass, in words; "" if nothing does."""
    if beyond(row, found.serving.version):
        return f"version {found.serving.version} is newer than the matrix ({row.verified_to})"
    names = ", ".join(found.serving.unmodelled)
    return f"what {names} takes is not known" if names else ""


def _verdict(found: Prediction, wanted: int, card: Card) -> tuple[Fit, str]:
    pool, low, high = found.pool or 0, found.pool_low or 0, found.pool_high or 0
    if card.free is not None and card.free < found.budget:
        return Fit.DOES_NOT, f"{gib(card.free)} are free, {gib(found.budget)} are asked for"
    if high < wanted:
        return Fit.DOES_NOT, _shortage(found, wanted)
    if low < wanted:
        why = f"{_balance(found, wanted)}: such predictions were off by up to {gib(pool - low)}"
        return Fit.UNCERTAIN, why
    if found.graphs > card.total - found.budget + pool - wanted:
        return Fit.UNCERTAIN, "CUDA graphs may not fit beside the pool"
    return Fit.FITS, _balance(found, wanted)


def residual(matrix: Matrix, found: Prediction) -> Residual:
    """How far predictions of this kind were off: one device, several, or parts not modelled."""
    kind = "one" if found.serving.ranks == 1 else "ranks"
    if found.model.is_multimodal:
        kind = "multimodal"
    elif _is_padded(found.serving.quantization):
        kind = "padded"
    return next(row for row in matrix.memory.residuals if row.kind == kind)


def _is_padded(quantization: Quantization | None) -> bool:
    return quantization is not None and quantization.format.pad_hidden > 1


def _balance(found: Prediction, wanted: int) -> str:
    count = found.serving.requests
    who = "one request needs" if count == 1 else f"{count} requests need"
    return f"{who} {gib(wanted)}, the pool is {gib(found.pool or 0)}"


def _shortage(found: Prediction, wanted: int) -> str:
    weights = found.weights.bytes if found.weights else 0
    if weights > found.budget:
        return f"the weights need {gib(weights)}, the engine may use {gib(found.budget)}"
    return _balance(found, wanted)
