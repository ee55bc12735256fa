"""What an engine needs beside weights and KV cache: activations, graphs, the rest."""

from __future__ import annotations

from doctor.matrix.memory import EnginePool
from doctor.sizing.cards import GIB
from doctor.sizing.model import Model, need
from doctor.sizing.settings import Serving

_HALF = 2
_SINGLE = 4


def activation_peak(model: Model, serving: Serving, row: EnginePool) -> int:
    """Bytes at the peak of the profiling run; raises MissingFact.

    Either the widest moment of a layer (three hidden vectors, gate, up and their product),
    or the sampler, which works on the logits of all sequences, undivided by ranks.
    """
    hidden = need(model.hidden, "hidden size of the model")
    vocab = need(model.vocab, "vocabulary of the model")
    moment = 3 * hidden + 3 * active_width(model) / serving.tp
    layer = serving.batched * moment * _HALF * row.body_factor
    sampler = min(serving.seqs, serving.batched) * vocab * row.sampler_bytes
    return int(max(layer, sampler))


def active_width(model: Model) -> int:
    """Width of the feed-forward part that one token passes."""
    experts = model.experts
    if experts is not None and experts.width:
        return experts.width * (experts.active or 1) + experts.shared
    return model.intermediate or 4 * (model.hidden or 0)


def non_torch(row: EnginePool, ranks: int) -> int:
    """Bytes that are charged outside of the tensor allocator on each device."""
    return int((row.non_torch_gib if ranks == 1 else row.non_torch_ranks_gib) * GIB)


def graphs_after(model: Model, serving: Serving, row: EnginePool) -> int:
    """Bytes that CUDA graphs take after the pool was reserved."""
    if serving.eager or row.graph_charged_gib:
        return 0
    return int(_layers(model, serving) * row.graph_layer_gib * GIB)


def graphs_charged(model: Model, serving: Serving, row: EnginePool) -> int:
    """Bytes that the engine takes off its pool for CUDA graphs, by its own estimate."""
    if serving.eager:
        return 0
    return int(_layers(model, serving) * row.graph_charged_gib * GIB)


def _layers(model: Model, serving: Serving) -> int:
    return -(-(model.layers or 0) // serving.pp)


def scratch(model: Model, ubatch: int, context: int, flash: bool) -> int:
    """Bytes of the compute buffer of an engine that allocates everything at start.

    Logits and two hidden states of `ubatch` tokens; without flash attention the attention scores
    of a batch against the whole context, and their mask, where that is more.
    """
    hidden = need(model.hidden, "hidden size of the model")
    vocab = need(model.vocab, "vocabulary of the model")
    buffer = ubatch * (vocab + 2 * hidden) * _SINGLE
    if flash:
        return buffer
    heads = need(model.heads, "attention heads of the model")
    return max(buffer, ubatch * context * (heads + 1) * _SINGLE)
