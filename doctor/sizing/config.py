"""A model from its config.json."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from doctor.errors import UsageError
from doctor.matrix.architectures import Experts, Latent, Linear, StateSpace
from doctor.matrix.memory import MemoryDomain
from doctor.sizing.layers import layer_kinds
from doctor.sizing.model import Model
from doctor.sizing.quantization import quantization_of
from doctor.sizing.tower import tower_weights
from doctor.sizing.values import MOST_HEADS, MOST_LAYERS, MOST_TOKENS, MOST_VOCAB, whole

Config = Mapping[str, Any]

_HINT = "give the config.json of a text model, as transformers writes it"
_TEXT_PARTS = ("text_config", "llm_config", "language_config", "thinker_config")
_OTHER_PARTS = ("vision_config", "audio_config", "visual", "vision_tower", "mm_vision_tower")
_LAYERS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers")
_HIDDEN = ("hidden_size", "n_embd", "d_model", "model_dim")
_HEADS = ("num_attention_heads", "n_head", "n_heads", "num_heads")
_KV_HEADS = ("num_key_value_heads", "num_kv_heads", "multi_query_group_num", "n_head_kv")
_HEAD_DIM = ("head_dim", "kv_channels", "attention_head_dim")
_WIDTH = ("intermediate_size", "ffn_hidden_size", "ffn_dim", "n_inner", "feed_forward_length")
_POSITIONS = ("max_position_embeddings", "n_positions", "max_seq_len", "seq_length", "n_ctx")
_VOCAB = ("vocab_size", "padded_vocab_size")
_EXPERTS = ("num_local_experts", "n_routed_experts", "num_experts", "moe_num_experts")
_ACTIVE = ("num_experts_per_tok", "num_experts_per_token", "moe_topk", "top_k_experts", "moe_top_k")
_EXPERT_WIDTH = ("moe_intermediate_size", "expert_intermediate_size", "moe_ffn_hidden_size")


def parse_config(text: str, at: str) -> dict[str, Any]:
    """Read JSON that should be an object; raises UsageError."""
    try:
        config = json.loads(text)
    except (ValueError, RecursionError) as fault:
        raise UsageError(f"{at}: not JSON ({str(fault)[:80]})", _HINT) from None
    if not isinstance(config, dict):
        raise UsageError(f"{at}: not a JSON object", _HINT)
    return config


def model_of_config(config: Config, memory: MemoryDomain, at: str, name: str = "") -> Model:
    """The model that a config.json describes.

    Raises UsageError where it lacks layers, width or heads, or where a number is out of
    all range.
    """
    inner = _text_part(config)
    layers = whole(inner, at, *_LAYERS, most=MOST_LAYERS)
    hidden = whole(inner, at, *_HIDDEN)
    heads = whole(inner, at, *_HEADS, most=MOST_HEADS)
    for value, key in ((layers, _LAYERS[0]), (hidden, _HIDDEN[0]), (heads, _HEADS[0])):
        if value is None:
            raise UsageError(f"{at}: no {key}", _HINT)
    model = Model(
        name=name or str(config.get("_name_or_path") or at),
        architecture=_architecture(config),
        layers=layers,
        hidden=hidden,
        heads=heads,
        kv_heads=_kv_heads(inner, heads or 1, at),
        head_dim=whole(inner, at, *_HEAD_DIM) or (hidden or 0) // (heads or 1),
        vocab=whole(inner, at, *_VOCAB, most=MOST_VOCAB),
        intermediate=whole(inner, at, *_WIDTH),
        positions=whole(inner, at, *_POSITIONS, most=MOST_TOKENS),
        tied=_flag(inner, config, "tie_word_embeddings"),
        bias=_flag(inner, config, "attention_bias"),
        gated=bool(inner.get("attn_output_gate")),
        rotary_share=_rotary_share(inner),
        at=at,
    )
    return _with_parts(model, config, inner, memory)


def _with_parts(model: Model, config: Config, inner: Config, memory: MemoryDomain) -> Model:
    """The model with what tells it from a plain transformer."""
    at, layers = model.at, model.layers or 0
    quantization, unclear = quantization_of(config, memory, at)
    kinds, window, chunk = layer_kinds(inner, layers, at)
    return replace(
        model,
        kinds=kinds,
        window=window,
        chunk=chunk,
        global_head_dim=whole(inner, at, "global_head_dim"),
        global_kv_heads=whole(inner, at, "num_global_key_value_heads"),
        kv_shared_layers=whole(inner, at, "num_kv_shared_layers", most=layers or 1, least=0) or 0,
        experts=_experts(inner, layers, kinds, at),
        latent=_latent(inner, at),
        linear=_linear(inner, at),
        state_space=_state_space(inner, at),
        tower=tower_weights(config, at),
        is_multimodal=any(isinstance(config.get(key), (dict, str)) for key in _OTHER_PARTS),
        quantization=quantization,
        unclear=unclear,
    )


def _text_part(config: Config) -> Config:
    """The part of a config that describes the language model."""
    for key in _TEXT_PARTS:
        part = config.get(key)
        if isinstance(part, dict) and any(name in part for name in (*_HIDDEN, *_TEXT_PARTS)):
            return _text_part(part)
    return config


def _architecture(config: Config) -> str:
    named = config.get("architectures")
    if isinstance(named, list) and named:
        return str(named[0])[:100]
    return str(config.get("model_type") or "")[:100]


def _flag(inner: Config, config: Config, key: str) -> bool | None:
    for part in (inner, config):
        if isinstance(part.get(key), bool):
            return bool(part[key])
    return None


def _kv_heads(inner: Config, heads: int, at: str) -> int:
    if inner.get("multi_query") is True and not inner.get("new_decoder_architecture"):
        return whole(inner, at, *_KV_HEADS, most=MOST_HEADS) or 1
    return whole(inner, at, *_KV_HEADS, most=MOST_HEADS) or heads


def _rotary_share(inner: Config) -> float:
    share = inner.get("partial_rotary_factor", inner.get("rotary_pct", 1.0))
    valid = isinstance(share, (int, float)) and not isinstance(share, bool) and 0 < share <= 1
    return float(share) if valid else 1.0


def _experts(inner: Config, layers: int, kinds: Mapping[str, int], at: str) -> Experts | None:
    count = whole(inner, at, *_EXPERTS, most=MOST_HEADS, least=0)
    if not count or count < 2:
        return None
    width = whole(inner, at, *_EXPERT_WIDTH) or whole(inner, at, *_WIDTH)
    shared = whole(inner, at, "shared_expert_intermediate_size", "moe_shared_width", least=0)
    if shared is None:
        lone = whole(inner, at, "n_shared_experts", "num_shared_experts", most=1024, least=0)
        shared = (lone or 0) * (width or 0)
    return Experts(
        count=count,
        active=whole(inner, at, *_ACTIVE, most=MOST_HEADS),
        width=width,
        shared=shared,
        layers=kinds.get("moe") or _layers_with_experts(inner, layers, at),
        dense=whole(inner, at, "intermediate_size_mlp"),
    )


def _layers_with_experts(inner: Config, layers: int, at: str) -> int | None:
    dense = whole(inner, at, "first_k_dense_replace", most=layers, least=0) or 0
    step = whole(inner, at, "moe_layer_freq", "interleave_moe_layer_step", "decoder_sparse_step")
    period = whole(inner, at, "expert_layer_period", most=MOST_LAYERS)
    listed = inner.get("mlp_only_layers")
    dense += len(listed) if isinstance(listed, list) else 0
    found = max(layers - dense, 0) // (period or step or 1)
    return None if found == layers else found


def _latent(inner: Config, at: str) -> Latent | None:
    rank = whole(inner, at, "kv_lora_rank", least=0)
    rope = whole(inner, at, "qk_rope_head_dim", least=0)
    if not rank or not rope:
        return None
    return Latent(
        kv_rank=rank,
        rope=rope,
        nope=whole(inner, at, "qk_nope_head_dim"),
        value=whole(inner, at, "v_head_dim"),
        q_rank=whole(inner, at, "q_lora_rank", least=0) or None,
        index_heads=whole(inner, at, "index_n_heads", least=0) or None,
        index_dim=whole(inner, at, "index_head_dim", least=0) or None,
    )


def _linear(inner: Config, at: str) -> Linear | None:
    heads = whole(inner, at, "linear_num_key_heads", most=MOST_HEADS)
    if heads is None:
        return None
    return Linear(
        key_heads=heads,
        value_heads=whole(inner, at, "linear_num_value_heads", most=MOST_HEADS) or heads,
        key_dim=whole(inner, at, "linear_key_head_dim") or 1,
        value_dim=whole(inner, at, "linear_value_head_dim") or 1,
        conv=whole(inner, at, "linear_conv_kernel_dim", most=1024) or 4,
    )


def _state_space(inner: Config, at: str) -> StateSpace | None:
    heads = whole(inner, at, "mamba_num_heads", "mamba_n_heads", most=MOST_HEADS)
    if heads is None:
        return None
    return StateSpace(
        heads=heads,
        head_dim=whole(inner, at, "mamba_head_dim", "mamba_d_head") or 64,
        groups=whole(inner, at, "n_groups", "mamba_n_groups", most=MOST_HEADS) or 1,
        state=whole(inner, at, "ssm_state_size", "mamba_d_state") or 128,
        conv=whole(inner, at, "conv_kernel", "mamba_d_conv", most=1024) or 4,
    )
