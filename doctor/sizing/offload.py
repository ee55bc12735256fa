"""Engines that share layers between devices and the CPU, and allocate everything at start."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from doctor.facts import Version
from doctor.matrix.memory import LayerSplit, MemoryDomain
from doctor.sizing.cards import GIB, Card
from doctor.sizing.kv import KvPlan, request_bytes
from doctor.sizing.model import Model, need
from doctor.sizing.overhead import scratch
from doctor.sizing.settings import Serving, count
from doctor.sizing.weights import Weights, rank_weights

_OFF = ("0", "off", "false", "no", "disabled")


@dataclass(frozen=True)
class Share:
    """What one device holds: so many layers, so many bytes of weights, cache and scratch."""

    card: Card
    layers: int
    bytes: int


@dataclass(frozen=True)
class Offload:
    """How layers are shared; the output counts as one more layer.

    `layer` is bytes of one layer with its cache, `output` those of the last, `cache` the
    whole cache, `scratch` the compute buffer of each device, `cpu` what stays in host memory.
    `wanted` is how many layers were asked for (all, if nothing was said).
    """

    context: int
    layers: int
    wanted: int
    layer: int
    output: int
    cache: int
    scratch: int
    weights: Weights
    shares: tuple[Share, ...]
    cpu: int

    @property
    def held(self) -> int:
        """Layers that the devices hold, the output included."""
        return sum(share.layers for share in self.shares)


@dataclass(frozen=True)
class Asked:
    """What of the arguments matters here. `layers` is None where nothing was said."""

    cards: tuple[Card, ...]
    layers: int | None = None
    flash: bool = True
    ubatch: int | None = None


def offload(
    memory: MemoryDomain, model: Model, settings: Serving, split: LayerSplit, asked: Asked
) -> Offload:
    """Share the layers over the devices, as many on each as fit; raises MissingFact."""
    layers = need(model.layers, "layers of the model")
    context = _context(model, split, settings)
    plan = kv_plan(settings, split)
    cache = request_bytes(model, plan, context)
    held = rank_weights(model, memory, settings.quantization)
    ubatch = asked.ubatch or split.ubatch
    buffer = scratch(model, ubatch, context, asked.flash)
    embedding = held.by_kind.get("embedding", 0)
    output = held.by_kind.get("head", 0) or embedding
    body = held.bytes - embedding - held.by_kind.get("head", 0)
    layer = -(-(body + cache) // layers)
    wanted = min(asked.layers if asked.layers is not None else layers + 1, layers + 1)
    shares = _shares(asked.cards, wanted, layers, (layer, output), buffer + _reserve(split))
    on_devices = min(sum(share.layers for share in shares), layers)
    return Offload(
        context=context,
        layers=layers + 1,
        wanted=wanted,
        layer=layer,
        output=output,
        cache=cache,
        scratch=buffer,
        weights=held,
        shares=shares,
        cpu=embedding + (layers - on_devices) * layer,
    )


def asked_of(cards: Sequence[Card], args: Mapping[str, Any]) -> Asked:
    """Read the arguments; a number of layers that cannot be read means all."""
    stated = str(args.get("n_gpu_layers", "")).strip()
    return Asked(
        cards=tuple(cards),
        layers=0 if stated == "0" else count(args, "n_gpu_layers"),
        flash=str(args.get("flash_attn", "on")).strip().lower() not in _OFF,
        ubatch=count(args, "n_ubatch") or count(args, "ubatch_size"),
    )


def kv_plan(settings: Serving, split: LayerSplit) -> KvPlan:
    """How the cache is laid out: whole, with values of latent attention beside its keys."""
    return KvPlan(
        format=settings.kv,
        block=split.block,
        spare_blocks=0,
        batched=split.ubatch,
        sliding_as_full=not _windows(settings, split),
        latent_values=True,
    )


def _windows(settings: Serving, split: LayerSplit) -> bool:
    """True unless the version is known to be older than windows of sliding layers are."""
    if not split.windows_since or settings.version is None:
        return bool(split.windows_since)
    return settings.version.older_than(Version(split.windows_since)) is not True


def _context(model: Model, split: LayerSplit, settings: Serving) -> int:
    """The context asked for; where none was, the engine's default, or the model's if less."""
    stated = settings.length
    if stated is not None and not settings.length_is_assumed:
        return stated
    return min(split.context, model.positions or split.context)


def _reserve(split: LayerSplit) -> int:
    return int(split.reserve_gib * GIB)


def _shares(
    cards: Sequence[Card], wanted: int, layers: int, sizes: tuple[int, int], fixed: int
) -> tuple[Share, ...]:
    """Fill the devices, the largest first; the output goes with the last layer."""
    layer, output = sizes
    left, shares = wanted, []
    for card in sorted(cards, key=_room, reverse=True):
        if left <= 0:
            break
        room = _room(card) - fixed
        fitting = max(room // layer, 0) if layer else left
        held = min(left, fitting)
        # The output is larger than a layer in small models with large vocabularies.
        if held == left and wanted > layers and (held - 1) * layer + output > room:
            held -= 1
        if held:
            size = held * layer + (output - layer if held == left and wanted > layers else 0)
            shares.append(Share(card, held, size + fixed))
        left -= held
    return tuple(shares)


def _room(card: Card) -> int:
    return card.total if card.free is None else min(card.free, card.total)
