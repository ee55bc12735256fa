"""What sizing says of a workload of a host: for rules, which have facts and no files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from doctor.facts import Device, Workload
from doctor.matrix import Matrix
from doctor.sizing.cards import Card, card_of
from doctor.sizing.fit import predict
from doctor.sizing.pools import weakest
from doctor.sizing.prediction import Prediction
from doctor.sizing.settings import Deployment, count
from doctor.sizing.source import model_for


def predict_workload(
    matrix: Matrix, workload: Workload, devices: Sequence[Device], are_all: bool = True
) -> Prediction | None:
    """The prediction for a workload on its devices; None if its engine or model is not known.

    `are_all` is False where more devices may exist than are known: then ranks beyond them
    are taken to be like the smallest. Free memory counts only before the engine runs.
    Never raises; `missing` names what was not known.
    """
    engine = matrix.canonical(workload.engine)
    args = workload.args.value or {}
    model = model_for(matrix, str(args.get("model") or ""), workload.model.value)
    if engine is None or model is None:
        return None
    cards = _cards(matrix, workload, devices)
    if not are_all:
        cards = _padded(cards, args)
    return predict(matrix, model, Deployment(engine, workload.version.value, cards, args))


def _cards(matrix: Matrix, workload: Workload, devices: Sequence[Device]) -> tuple[Card, ...]:
    """All devices as cards, or none if the memory of one is not known."""
    found = [card_of(matrix, device) for device in devices]
    known = [card for card in found if card is not None]
    if len(known) < len(found):
        return ()
    return tuple(replace(c, free=None) if workload.pid is not None else c for c in known)


def _padded(cards: tuple[Card, ...], args: dict[str, object]) -> tuple[Card, ...]:
    ranks = 1
    for name in ("tensor_parallel_size", "pipeline_parallel_size"):
        ranks *= count(args, name) or 1
    card = weakest(cards)
    missing = min(ranks, 1024) - len(cards)
    return cards if card is None or missing <= 0 else (*cards, *(card,) * missing)
