"""What a model is to sizing: the widths that decide how many bytes it needs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from doctor.facts import Missing, MissingFact
from doctor.matrix.architectures import Experts, Latent, Linear, StateSpace
from doctor.matrix.memory import WeightFormat

T = TypeVar("T")

# Kinds of layers that keep keys and values of past tokens.
KEEPS_TOKENS = ("full", "sliding", "chunked")


@dataclass(frozen=True)
class Quantization:
    """The number format of the weights, and the share of each kind that stays at 16 bit.

    `kept` has kinds of weights ("attention", "experts") with a share from 0 to 1 of the
    layers; `group_size` is 0 where the format's own is meant.
    """

    format: WeightFormat
    kept: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Stored:
    """Weights as they lie in files: bytes by kind once loaded, and bytes by layer number."""

    by_kind: Mapping[str, int]
    by_layer: Mapping[int, int] = field(default_factory=dict)
    file_bytes: int = 0

    @property
    def total(self) -> int:
        """All bytes that are loaded."""
        return sum(self.by_kind.values())


@dataclass(frozen=True)
class Model:
    """Widths of one model; None where unknown. `at` says where they come from.

    `kinds` counts its layers by what they keep of the past (see `ModelRow.kinds`).
    `params` is a stated total and `published` the bytes of its published weight files, used
    only where the widths do not give them; `tower` counts
    parameters of vision or audio parts, `is_multimodal` that there are such parts at all.
    `quantization` is that of the checkpoint, None for 16 bit, `unclear` the name of a method
    whose bytes are not known.
    """

    name: str
    architecture: str = ""
    layers: int | None = None
    hidden: int | None = None
    heads: int | None = None
    kv_heads: int | None = None
    head_dim: int | None = None
    value_dim: int | None = None
    vocab: int | None = None
    intermediate: int | None = None
    positions: int | None = None
    tied: bool | None = None
    bias: bool | None = None
    gated: bool = False
    kinds: Mapping[str, int] = field(default_factory=dict)
    window: int | None = None
    chunk: int | None = None
    global_head_dim: int | None = None
    global_kv_heads: int | None = None
    kv_shared_layers: int = 0
    rotary_share: float = 1.0
    experts: Experts | None = None
    latent: Latent | None = None
    linear: Linear | None = None
    state_space: StateSpace | None = None
    params: int | None = None
    published: int | None = None
    tower: int = 0
    is_multimodal: bool = False
    quantization: Quantization | None = None
    unclear: str = ""
    stored: Stored | None = None
    expands_latent: bool = False
    at: str = ""

    def count(self, kind: str) -> int:
        """How many layers are of that kind."""
        return self.kinds.get(kind, 0)

    @property
    def keeping(self) -> int:
        """Layers that keep keys and values of past tokens."""
        return sum(self.count(kind) for kind in KEEPS_TOKENS)

    @property
    def is_hybrid(self) -> bool:
        """True if its layers keep different amounts of the past."""
        return len([kind for kind in (*KEEPS_TOKENS, *RECURRENT) if self.count(kind)]) > 1


# Kinds of layers that keep one state a sequence, whatever its length.
RECURRENT = ("linear", "mamba2", "lightning")


def need(value: T | None, name: str) -> T:
    """The value; raises MissingFact with its name where it is unknown."""
    if value is None:
        raise MissingFact(name, Missing.NOT_STATED)
    return value
