"""How many weights of which kind a model has, from its widths.

Kinds: embedding, head, attention, kv (key and value projections), latent (down-projections
that every rank holds), dense, experts, shared, router, linear, state-space, norms, bias,
rotary (a table), tower (vision or audio).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from doctor.facts import Missing, MissingFact
from doctor.matrix.architectures import Experts
from doctor.matrix.memory import MemoryDomain, Traits
from doctor.sizing.model import Model, need

VOCAB_MULTIPLE = 64


class Split(str, Enum):
    """How tensor-parallel ranks share a part: evenly, not at all, or by KV heads."""

    EVEN = "even"
    COPIES = "copies"
    KV_HEADS = "kv-heads"


@dataclass(frozen=True)
class Part:
    """Some weights of one kind. `is_quantized` where a quantized checkpoint covers them.

    `place` is "first" or "last" rank of a pipeline, or "layers" for what all share.
    `rows` and `columns` are the sides of each matrix where kernels may pad them.
    """

    kind: str
    weights: int
    split: Split = Split.EVEN
    is_quantized: bool = True
    place: str = "layers"
    width: int = 0


def traits_of(memory: MemoryDomain, architecture: str) -> Traits | None:
    """What is known of an architecture by the longest prefix of its name that has a row."""
    fitting = [row for row in memory.traits if architecture.startswith(row.architecture)]
    return max(fitting, key=lambda row: len(row.architecture), default=None)


def is_tied(model: Model, traits: Traits | None) -> bool:
    """True if the output head is the embedding; the default of the architecture if unstated."""
    if model.tied is not None:
        return model.tied
    return bool(traits and traits.tied)


def parts(model: Model, memory: MemoryDomain) -> tuple[Part, ...]:
    """All weights by kind; raises MissingFact for the first width that is not known."""
    traits = traits_of(memory, model.architecture)
    found = (
        *_ends(model, traits),
        *_attention(model, traits),
        *_recurrent(model),
        *_feed_forward(model, traits),
        *_small(model, traits),
    )
    return tuple(part for part in found if part.weights)


def total_weights(found: tuple[Part, ...]) -> int:
    """Parameters of the text part: no tower, no tables."""
    return sum(part.weights for part in found if part.kind not in ("rotary", "tower"))


def _ends(model: Model, traits: Traits | None) -> Iterator[Part]:
    hidden = need(model.hidden, "hidden size of the model")
    vocab = need(model.vocab, "vocabulary of the model")
    padded = -(-vocab // VOCAB_MULTIPLE) * VOCAB_MULTIPLE
    yield Part("embedding", padded * hidden, is_quantized=False, place="first")
    if not is_tied(model, traits):
        yield Part("head", padded * hidden, is_quantized=False, place="last")
    if model.tower:
        yield Part("tower", model.tower, Split.EVEN, is_quantized=False, place="first")


def _attention(model: Model, traits: Traits | None) -> Iterator[Part]:
    layers = model.keeping
    if not layers:
        return
    hidden = need(model.hidden, "hidden size of the model")
    heads = need(model.heads, "attention heads of the model")
    if model.latent is not None:
        yield from _latent(model, layers, hidden, heads)
        return
    full = model.count("full") if model.global_head_dim else 0
    own = need(model.head_dim, "head width of the model")
    yield from _heads(model, layers - full, own, need(model.kv_heads, "KV heads of the model"))
    if full:
        wide = need(model.global_head_dim, "head width of the model")
        yield from _heads(model, full, wide, model.global_kv_heads or model.kv_heads or heads)
    if model.bias or (model.bias is None and traits and traits.bias):
        count = heads * own + 2 * (model.kv_heads or heads) * own
        yield Part("bias", layers * count, is_quantized=False)


def _heads(model: Model, layers: int, head_dim: int, kv_heads: int) -> Iterator[Part]:
    hidden, heads = model.hidden or 0, model.heads or 0
    value_dim = model.value_dim or head_dim
    queries = 2 if model.gated else 1
    yield Part("attention", layers * hidden * heads * (head_dim * queries + value_dim))
    yield Part("kv", layers * hidden * kv_heads * (head_dim + value_dim), Split.KV_HEADS)


def _latent(model: Model, layers: int, hidden: int, heads: int) -> Iterator[Part]:
    sizes = model.latent
    if sizes is None or sizes.nope is None or sizes.value is None:
        raise MissingFact("head widths of latent attention", Missing.NOT_STATED)
    query = heads * (sizes.nope + sizes.rope)
    up = heads * (sizes.nope + sizes.value) * sizes.kv_rank
    out = heads * sizes.value * hidden
    asked = sizes.q_rank * query if sizes.q_rank else hidden * query
    down = hidden * (sizes.kv_rank + sizes.rope + (sizes.q_rank or 0))
    yield Part("attention", layers * (asked + up + out))
    yield Part("latent", layers * down, Split.COPIES)
    if sizes.index_heads and sizes.index_dim and sizes.q_rank:
        indexer = sizes.q_rank * sizes.index_heads * sizes.index_dim
        indexer += hidden * (sizes.index_dim + sizes.index_heads)
        yield Part("latent", layers * indexer, Split.COPIES)


def _recurrent(model: Model) -> Iterator[Part]:
    hidden = need(model.hidden, "hidden size of the model")
    layers = model.count("linear")
    if layers:
        sizes = need(model.linear, "widths of linear attention")
        keys, values = sizes.key_heads * sizes.key_dim, sizes.value_heads * sizes.value_dim
        yield Part("linear", layers * hidden * (2 * keys + 3 * values))
        small = hidden * 2 * sizes.value_heads + (2 * keys + values) * sizes.conv
        yield Part("linear", layers * small, is_quantized=False)
    layers = model.count("mamba2")
    if layers:
        state = need(model.state_space, "widths of state-space layers")
        inner, mixed = state.heads * state.head_dim, 2 * state.groups * state.state
        yield Part("state-space", layers * hidden * (3 * inner + mixed + state.heads))
        small = (inner + mixed) * state.conv + 3 * state.heads + inner
        yield Part("state-space", layers * small, is_quantized=False)
    if model.count("lightning"):
        raise MissingFact("widths of lightning attention", Missing.NOT_STATED)


def _feed_forward(model: Model, traits: Traits | None) -> Iterator[Part]:
    layers = need(model.layers, "layers of the model")
    hidden = model.hidden or 0
    matrices = (traits.matrices if traits else None) or 3
    dense_layers = layers
    if model.experts is not None:
        routed = _expert_layers(model, model.experts, layers)
        yield from _experts(model.experts, traits, routed, matrices * hidden)
        dense_layers = 0 if model.count("moe") else layers - routed
        if traits and traits.dense_beside:
            dense_layers = layers
    elif model.count("mlp"):
        dense_layers = model.count("mlp")
    if dense_layers:
        width = (model.experts.dense if model.experts else None) or model.intermediate
        # Architectures without a gate leave the usual width unsaid.
        width = width or (4 * hidden if matrices == 2 else None)
        width = need(width, "width of the feed-forward part")
        yield Part("dense", dense_layers * matrices * hidden * width, width=width)


def _expert_layers(model: Model, experts: Experts, layers: int) -> int:
    if experts.layers is not None:
        return experts.layers
    return model.count("moe") or layers


def _experts(
    experts: Experts, traits: Traits | None, layers: int, per_width: int
) -> Iterator[Part]:
    width = need(experts.width, "width of an expert")
    yield Part("experts", layers * experts.count * per_width * width, width=width)
    shared = experts.shared or (width if traits and traits.shared_like_expert else 0)
    yield Part("shared", layers * per_width * shared)
    hidden = per_width // ((traits.matrices if traits else None) or 3)
    yield Part("router", layers * experts.count * hidden, Split.COPIES, is_quantized=False)
    if traits and traits.expert_bias:
        biases = layers * experts.count * (2 * width + hidden)
        yield Part("bias", biases, is_quantized=False)


def _small(model: Model, traits: Traits | None) -> Iterator[Part]:
    layers, hidden = model.layers or 0, model.hidden or 0
    norms = (traits.norms if traits else None) or 2
    yield Part("norms", (norms * layers + 1) * hidden, Split.COPIES, is_quantized=False)
    rotary = model.latent.rope if model.latent else model.head_dim
    table = int((model.positions or 0) * (rotary or 0) * model.rotary_share)
    yield Part("rotary", table, Split.COPIES, is_quantized=False)
