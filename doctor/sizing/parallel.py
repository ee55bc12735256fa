"""Tensor or pipeline parallelism: what the links between the cards and the model allow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from doctor.facts import Facts
from doctor.sizing.cards import Card
from doctor.sizing.model import Model

_FAST_PRODUCTS = ("nvswitch", "sxm", "c2c")
_CONSUMER = ("geforce", "titan")
# Ranks over PCIe spend more time on sums of activations than the ranks save.
_MOST_OVER_PCIE = 4
_MOST_ON_CONSUMER = 2


@dataclass(frozen=True)
class Parallel:
    """Sizes to use on these cards, why, and what to mind."""

    tp: int
    pp: int
    why: str
    notes: tuple[str, ...] = ()


def parallel(model: Model, cards: Sequence[Card], links: Sequence[str] = ()) -> Parallel:
    """How to share the model among all of the cards; `links` are those of `TopologyLink`."""
    count = len(cards)
    if count <= 1:
        return Parallel(1, 1, "one device")
    fast, how = _fast(cards, links)
    most = _largest(model, count)
    notes = (*_uneven(cards), *_indivisible(model, count, most))
    if fast:
        return Parallel(most, _rest(count, most), f"{how}: tensor parallel", notes)
    limit = _MOST_OVER_PCIE
    if any(card.gpu_class in _CONSUMER for card in cards):
        limit = _MOST_ON_CONSUMER
    tp = _largest(model, min(count, limit))
    why = f"{how}: at most {tp} ranks share a layer, the rest is a pipeline"
    if tp == count:
        why = f"{how}: {tp} ranks may share each layer"
    return Parallel(tp, _rest(count, tp), why, notes)


def links_of(facts: Facts, cards: Sequence[Card]) -> tuple[str, ...]:
    """Links between these cards, as far as the topology was read."""
    ids = {card.id for card in cards}
    return tuple(
        link.link for link in facts.topology.value or () if link.a in ids and link.b in ids
    )


def _fast(cards: Sequence[Card], links: Sequence[str]) -> tuple[bool, str]:
    """Whether all cards are joined by NVLink, and how that is known."""
    if links:
        fast = all(link.startswith("NV") for link in links)
        return fast, "NVLink between all devices" if fast else "some devices only share PCIe"
    kinds = {card.nvlink for card in cards}
    if kinds <= set(_FAST_PRODUCTS):
        return True, "a product with NVLink"
    if kinds == {"bridge"}:
        return False, "NVLink only where bridges are fitted"
    return False, "no NVLink known"


def _largest(model: Model, count: int) -> int:
    """The most ranks up to `count` that divide the attention heads."""
    heads = model.heads or 0
    fitting = [n for n in range(1, count + 1) if heads and heads % n == 0 and count % n == 0]
    return max(fitting, default=1)


def _rest(count: int, tp: int) -> int:
    return max(count // tp, 1)


def _uneven(cards: Sequence[Card]) -> tuple[str, ...]:
    if len({card.total for card in cards}) == 1:
        return ()
    small = min(cards, key=lambda card: card.total)
    return (f"cards of several sizes: the smallest ({small.name}) limits all",)


def _indivisible(model: Model, count: int, tp: int) -> tuple[str, ...]:
    if tp == count or not model.heads:
        return ()
    return (f"{model.heads} attention heads cannot be divided by {count}",)
