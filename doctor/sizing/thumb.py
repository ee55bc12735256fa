"""The rule of thumb that people use, for comparison only."""

from __future__ import annotations

from doctor.matrix.memory import Thumb
from doctor.sizing.kv import plain_kv_bytes
from doctor.sizing.model import Model

_GB = 10**9


def plain_weight_bytes(params: int, bits: int) -> int:
    """Parameters times bits, without scales: 7 billion at 4 bit are 3.5 GB."""
    return params * bits // 8


def thumb_bytes(rule: Thumb, params: int, bits: int, kv: int) -> int:
    """Weights times the rule's factor, plus KV, plus its fixed part."""
    return round(plain_weight_bytes(params, bits) * rule.factor) + kv + round(rule.fixed_gb * _GB)


def thumb_kv_bytes(model: Model, tokens: int) -> int | None:
    """KV as the rule counts it: every attention head, 16 bit; None where widths are unknown."""
    if not model.layers or not model.heads or not model.head_dim:
        return None
    return plain_kv_bytes(model.layers, model.heads, model.head_dim, tokens)
