"""What each layer of a model keeps of the past, from the ways in which config.json says it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from doctor.sizing.values import MOST_LAYERS, MOST_TOKENS, whole

Config = Mapping[str, Any]
Kinds = dict[str, int]

_TYPES = {
    "full_attention": "full",
    "attention": "full",
    "global": "full",
    "hybrid": "full",
    "sliding_attention": "sliding",
    "sliding_window": "sliding",
    "local": "sliding",
    "chunked_attention": "chunked",
    "linear_attention": "linear",
    "gated_delta_net": "linear",
    "mamba": "mamba2",
    "mamba2": "mamba2",
    "conv": "other",
    "recurrent": "other",
}
# The letters of a hybrid pattern: M state space, * attention, - dense part, E experts.
_LETTERS = {"M": "mamba2", "*": "full", "-": "mlp", "E": "moe"}
_EVERY_SECOND = ("Gemma2", "gemma2")


def layer_kinds(config: Config, layers: int, at: str) -> tuple[Kinds, int | None, int | None]:
    """Counts of layers by kind, the sliding window and the chunk in tokens.

    Raises UsageError for numbers out of all range.
    """
    window = _window(config, at)
    chunk = whole(config, at, "attention_chunk_size", most=MOST_TOKENS, least=0) or None
    kinds = (
        _from_list(config, layers)
        or _from_pattern(config, layers)
        or _from_period(config, layers, at)
        or _from_window(config, layers, window, chunk, at)
    )
    return kinds, window, chunk


def _window(config: Config, at: str) -> int | None:
    if config.get("use_sliding_window") is False:
        return None
    return whole(config, at, "sliding_window", "window_size", most=MOST_TOKENS, least=0) or None


def _from_list(config: Config, layers: int) -> Kinds | None:
    listed = config.get("layer_types") or config.get("layers_block_type")
    if not isinstance(listed, list) or len(listed) != layers:
        return None
    return _counted(_TYPES.get(str(each), "full") for each in listed)


def _from_pattern(config: Config, layers: int) -> Kinds | None:
    pattern = config.get("hybrid_override_pattern")
    if not isinstance(pattern, str) or len(pattern) != layers:
        return None
    return _counted(_LETTERS.get(letter, "other") for letter in pattern)


def _counted(kinds: Iterable[str]) -> Kinds:
    counts: Kinds = {}
    for kind in kinds:
        counts[kind] = counts.get(kind, 0) + 1
    return counts


def _from_period(config: Config, layers: int, at: str) -> Kinds | None:
    """One full layer in every few; the others are linear, state-space or sliding."""
    interval = whole(config, at, "full_attention_interval", most=MOST_LAYERS, least=0)
    if interval:
        return _split(layers, layers // interval, "linear")
    period = whole(config, at, "attn_layer_period", most=MOST_LAYERS, least=0)
    if period:
        return _split(layers, layers // period, "mamba2")
    return None


def _from_window(
    config: Config, layers: int, window: int | None, chunk: int | None, at: str
) -> Kinds:
    """Full layers, unless a window covers all of them or all but one in every few."""
    if chunk and window is None:
        step = whole(config, at, "no_rope_layer_interval", most=MOST_LAYERS) or 4
        return _split(layers, layers // step, "chunked")
    pattern = whole(config, at, "sliding_window_pattern", most=MOST_LAYERS, least=0)
    named = f"{config.get('architectures')} {config.get('model_type')}"
    if pattern is None and any(word in named for word in _EVERY_SECOND):
        pattern = 2
    positions = whole(config, at, "max_position_embeddings", most=MOST_TOKENS)
    if window is None or (positions and window >= positions):
        return {"full": layers}
    if pattern:
        return _split(layers, layers // pattern, "sliding")
    spared = whole(config, at, "max_window_layers", most=MOST_LAYERS, least=0)
    if spared is not None:
        return _split(layers, min(spared, layers), "sliding")
    return {"sliding": layers}


def _split(layers: int, full: int, other: str) -> Kinds:
    counts = {"full": full, other: layers - full}
    return {kind: count for kind, count in counts.items() if count}
