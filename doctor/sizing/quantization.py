"""The number format of a checkpoint, from the quantization_config of its config.json."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from msgspec.structs import replace

from doctor.matrix.memory import MemoryDomain, WeightFormat
from doctor.sizing.formats import find_weight_format, weight_format
from doctor.sizing.model import Quantization
from doctor.sizing.values import whole

Config = Mapping[str, Any]

_KEPT_KEYS = ("ignore", "modules_to_not_convert", "ignored_layers", "exclude_modules", "exclude")
_LAYER = re.compile(r"layers[.\\/]{1,4}(\d{1,5})")
_MOST_PATTERNS = 100_000
_SCALE_BYTES = 2
# Words of module names by the kind of weights that they stand for; the first that fits.
_KINDS = (
    ("shared", ("shared_expert",)),
    ("experts", ("experts",)),
    ("linear", ("linear_attn", "in_proj", "out_proj")),
    ("attention", ("attn", "attention", "q_proj", "qkv", "o_proj")),
    ("dense", ("gate_proj", "up_proj", "down_proj", "gate_up", "feed_forward", "_proj")),
)


def quantization_of(
    config: Config, memory: MemoryDomain, at: str
) -> tuple[Quantization | None, str]:
    """The format and what stays at 16 bit; or None and the name of a method that is not known.

    None and "" for a checkpoint that is not quantized.
    """
    stated = config.get("quantization_config") or config.get("compression_config")
    text = config.get("text_config")
    if stated is None and isinstance(text, dict):
        stated = text.get("quantization_config")
    if not isinstance(stated, dict):
        return None, ""
    form = _format(stated, memory, at)
    if form is None:
        return None, str(stated.get("quant_method") or stated.get("quant_algo") or "unknown")[:60]
    if form.bits >= 16:
        return None, ""
    layers = whole(config if text is None else _inner(text), at, "num_hidden_layers") or 0
    return Quantization(form, _kept(stated, layers)), ""


def _inner(text: object) -> Config:
    return text if isinstance(text, dict) else {}


def _format(stated: Config, memory: MemoryDomain, at: str) -> WeightFormat | None:
    method = str(stated.get("quant_method") or "").lower()
    algorithm = str(stated.get("quant_algo") or "").lower()
    if isinstance(stated.get("config_groups"), dict):
        return _from_groups(stated, memory, at)
    if stated.get("load_in_8bit"):
        return weight_format(memory, "int8")
    if algorithm:
        return find_weight_format(memory, algorithm)
    if method == "fp8" and stated.get("weight_block_size"):
        return weight_format(memory, "fp8_block128")
    found = find_weight_format(memory, method)
    bits = whole(stated, at, "bits", "w_bit", most=16)
    if found is not None and bits is not None:
        group = whole(stated, at, "group_size", "q_group_size", least=-1) or -1
        return _grouped(found, bits, group, has_zeros=True)
    return found


def _from_groups(stated: Config, memory: MemoryDomain, at: str) -> WeightFormat | None:
    """The format of the first group of a compressed-tensors checkpoint."""
    groups = [g for g in stated["config_groups"].values() if isinstance(g, dict)]
    weights = groups[0].get("weights") if groups else None
    if not isinstance(weights, dict):
        return None
    bits = whole(weights, at, "num_bits", most=16)
    group = whole(weights, at, "group_size", least=-1) or -1
    floating = str(weights.get("type", "int")).lower() == "float"
    if bits is None:
        return None
    if floating and bits == 4:
        return weight_format(memory, "nvfp4" if 0 < group <= 16 else "mxfp4")
    base = weight_format(memory, "fp8" if floating else ("int8" if bits == 8 else "awq"))
    return _grouped(base, bits, group, has_zeros=weights.get("symmetric") is False)


def _grouped(base: WeightFormat, bits: int, group: int, has_zeros: bool) -> WeightFormat:
    """The format with the bits and the group that a checkpoint states."""
    scale = (_SCALE_BYTES + (bits / 8 if has_zeros else 0)) / group if group > 0 else 0.0
    return replace(base, bits=bits, bytes_per_weight=bits / 8 + scale, part="linear")


def _kept(stated: Config, layers: int) -> dict[str, float]:
    """The share of layers, by kind of weights, that the checkpoint leaves at 16 bit."""
    patterns: list[str] = []
    for key in _KEPT_KEYS:
        value = stated.get(key)
        if isinstance(value, list):
            patterns += [str(each)[:300] for each in value[:_MOST_PATTERNS]]
    return _shares(patterns, layers)


def _shares(patterns: Iterable[str], layers: int) -> dict[str, float]:
    named: dict[str, set[str]] = {}
    for pattern in patterns:
        kind = next((k for k, words in _KINDS if any(w in pattern for w in words)), None)
        if kind is not None:
            number = _LAYER.search(pattern)
            named.setdefault(kind, set()).add(number[1] if number else "all")
    shares = {}
    for kind, found in named.items():
        whole_kind = "all" in found or not layers
        shares[kind] = 1.0 if whole_kind else min(len(found) / layers, 1.0)
    # All projections of attention are kept or covered together.
    own = shares.get("attention")
    return shares if own is None else {**shares, "kv": own, "latent": own}
