"""Bytes of keys and values: by token, by request, and what a pool of bytes holds."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from doctor.facts import Missing, MissingFact
from doctor.matrix.memory import KvFormat
from doctor.sizing.model import KEEPS_TOKENS, Model, need

_HALF = 2
# A sparse indexer keeps an 8-bit key of each token, and one 32-bit scale.
_INDEX_SCALE = 4
# FP8 keys of sparse latent attention: 8-bit latent, a 32-bit scale per 128, 16-bit rotary part.
_SCALED = 128
_LONGEST = 1 << 31


@dataclass(frozen=True)
class KvPlan:
    """How the cache is laid out on one rank.

    `tp`, `pp` and `dcp` are ranks that share heads, layers and tokens; `block` the tokens of
    a block, `spare_blocks` those that a window needs beyond its tokens; `batched` the most
    tokens computed at once; `sliding_as_full` keeps all tokens of sliding layers;
    `latent_values` keeps values beside keys of latent attention, `latent_width` is that of
    each head's keys and values where an engine keeps them in full instead.
    """

    format: KvFormat
    tp: int = 1
    pp: int = 1
    dcp: int = 1
    block: int = 1
    spare_blocks: int = 1
    batched: int = 0
    sliding_as_full: bool = True
    latent_values: bool = False
    latent_width: int = 0


def plain_kv_bytes(
    layers: int, kv_heads: int, head_dim: int, tokens: int, element_bytes: int = _HALF
) -> int:
    """Two times layers, KV heads, head width, tokens of all sequences, bytes of an element."""
    return 2 * layers * kv_heads * head_dim * tokens * element_bytes


def layer_bytes(model: Model, plan: KvPlan, kind: str = "full") -> Fraction:
    """Bytes that one layer of that kind keeps of one token on one rank; raises MissingFact."""
    each = Fraction(plan.format.bytes_per_element)
    if model.latent is not None and plan.latent_width:
        ours = -(-need(model.heads, "attention heads of the model") // plan.tp)
        return ours * 2 * plan.latent_width * each
    if model.latent is not None and not model.expands_latent:
        return _latent_bytes(model, plan)
    heads = need(model.kv_heads, "KV heads of the model")
    width = need(model.head_dim, "head width of the model")
    if kind == "full" and model.global_head_dim:
        heads, width = model.global_kv_heads or heads, model.global_head_dim
    ours = max(1, -(-heads // plan.tp))
    return ours * (width + (model.value_dim or width)) * each


def _latent_bytes(model: Model, plan: KvPlan) -> Fraction:
    """One latent vector and one rotary part, whole on every tensor-parallel rank."""
    sizes = need(model.latent, "widths of latent attention")
    if plan.latent_values:
        width = 2 * sizes.kv_rank + sizes.rope
        return width * Fraction(plan.format.bytes_per_element)
    if not sizes.index_dim:
        return (sizes.kv_rank + sizes.rope) * Fraction(plan.format.bytes_per_element)
    index = sizes.index_dim + _INDEX_SCALE
    if plan.format.bytes_per_element >= _HALF:
        return Fraction((sizes.kv_rank + sizes.rope) * _HALF + index)
    scales = -(-sizes.kv_rank // _SCALED) * 4
    return Fraction(sizes.kv_rank + scales + sizes.rope * _HALF + index)


def token_bytes(model: Model, plan: KvPlan) -> Fraction:
    """Bytes of one token over all layers of one rank, sliding layers counted as full."""
    kinds = [kind for kind in KEEPS_TOKENS if model.count(kind)]
    total = sum(
        (_layers(model, kind) * layer_bytes(model, plan, kind) for kind in kinds), Fraction(0)
    )
    return total / plan.pp / plan.dcp


def state_bytes(model: Model, plan: KvPlan) -> Fraction:
    """Bytes that recurrent layers keep of one sequence on one rank, at 16 bit."""
    total = 0
    if model.count("linear") and model.linear is not None:
        sizes = model.linear
        mixed = 2 * sizes.key_heads * sizes.key_dim + sizes.value_heads * sizes.value_dim
        state = sizes.value_heads * sizes.key_dim * sizes.value_dim
        total += model.count("linear") * (state + mixed * (sizes.conv - 1))
    if model.count("mamba2") and model.state_space is not None:
        space = model.state_space
        inner = space.heads * space.head_dim
        mixed = inner + 2 * space.groups * space.state
        total += model.count("mamba2") * (inner * space.state + mixed * (space.conv - 1))
    return Fraction(total * _HALF, plan.tp * plan.pp)


def request_bytes(model: Model, plan: KvPlan, length: int) -> int:
    """Bytes that one request of that many tokens needs on one rank."""
    total = state_bytes(model, plan)
    for kind in KEEPS_TOKENS:
        layers = _layers(model, kind)
        if layers:
            tokens = _kept_tokens(model, plan, kind, length)
            total += layers * layer_bytes(model, plan, kind) * tokens / plan.pp
    return int(-(-total // 1))


def _layers(model: Model, kind: str) -> int:
    """Layers of that kind with a cache of their own; the last ones may share another's."""
    layers = model.count(kind)
    if not model.kv_shared_layers or not model.layers:
        return layers
    return -(-layers * (model.layers - model.kv_shared_layers) // model.layers)


def _kept_tokens(model: Model, plan: KvPlan, kind: str, length: int) -> int:
    """Tokens of a request that a layer of that kind keeps at most, in whole blocks."""
    window = {"sliding": model.window, "chunked": model.chunk}.get(kind)
    if window is None or plan.sliding_as_full:
        return _up(-(-length // plan.dcp), plan.block)
    if kind == "sliding":
        kept = min(window - 1 + plan.batched, length)
        # The window may begin inside of a block.
        return _up(kept, plan.block) + plan.spare_blocks * plan.block
    return _up(min(window + plan.batched, length), plan.block)


def _up(tokens: int, block: int) -> int:
    return -(-tokens // block) * block


def pool_tokens(model: Model, plan: KvPlan, pool: int) -> int:
    """Tokens that a pool holds, in whole blocks; raises MissingFact for a model without any."""
    each = token_bytes(model, plan)
    if not each:
        raise MissingFact("KV bytes per token", Missing.NOT_STATED)
    return max(0, int(pool // (each * plan.block)) * plan.block)


def longest_request(model: Model, plan: KvPlan, pool: int, limit: int | None = None) -> int:
    """The longest request that a pool holds, at most `limit` tokens; 0 if not one token fits."""
    low, high = 0, min(limit or _LONGEST, _LONGEST)
    while low < high:
        middle = (low + high + 1) // 2
        if request_bytes(model, plan, middle) <= pool:
            low = middle
        else:
            high = middle - 1
    return low
