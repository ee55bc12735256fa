"""Parameters of vision and audio parts, by the usual shape of a transformer encoder."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from doctor.sizing.values import MOST_LAYERS, whole

Config = Mapping[str, Any]

_DEPTH = ("depth", "num_hidden_layers", "encoder_layers", "num_layers", "layers")
_INNER = ("intermediate_size", "encoder_ffn_dim", "ffn_dim")
_PARTS = ("vision_config", "audio_config")
_GATED = ("silu", "swish", "swiglu")


def tower_weights(config: Config, at: str) -> int:
    """Weights of the encoders that the config names; 0 if it names none or lacks their widths.

    An estimate: attention, feed-forward, patches, and the projection to the text's width.
    """
    parts = [config.get(key) for key in _PARTS]
    thinker = config.get("thinker_config")
    if isinstance(thinker, dict):
        return tower_weights(thinker, at)
    return sum(_weights(part, config, at) for part in parts if isinstance(part, dict))


def _weights(part: Config, config: Config, at: str) -> int:
    depth = whole(part, at, *_DEPTH, most=MOST_LAYERS)
    # Some configurations call the width of the output hidden_size, and the inner embed_dim.
    hidden = whole(part, at, "embed_dim", "hidden_size", "d_model", "width")
    if depth is None or hidden is None:
        return 0
    inner = _inner(part, hidden, at)
    matrices = 3 if str(part.get("hidden_act", "")).lower() in _GATED else 2
    layers = depth * (4 * hidden * hidden + matrices * hidden * inner)
    return layers + _projection(part, config, hidden, at)


def _inner(part: Config, hidden: int, at: str) -> int:
    inner = whole(part, at, *_INNER)
    ratio = part.get("mlp_ratio")
    if inner is None and isinstance(ratio, (int, float)) and 0 < ratio < 64:
        return int(hidden * ratio)
    return inner or 4 * hidden


def _projection(part: Config, config: Config, hidden: int, at: str) -> int:
    """From the encoder to the text: a merger of patches where they are merged, else one matrix."""
    text = config.get("text_config")
    source = text if isinstance(text, dict) else config
    out = whole(source, at, "hidden_size") or hidden
    merge = whole(part, at, "spatial_merge_size", most=64) or 1
    wide = hidden * merge * merge
    return wide * out + (wide * wide if merge > 1 else 0)
