"""Published models: the figures of their config.json that rules and sizing need."""

from __future__ import annotations

from msgspec import Struct

from doctor.matrix.model import Row


class ModelRow(Row, frozen=True, kw_only=True):
    """One model repository. `params_b` counts all parameters of the text part, in 10^9.

    `kv_bytes_per_token` is for 16-bit KV on one device, sliding layers counted as full;
    `plain_attention` says that every layer keeps all tokens (no sliding window, no latent
    or linear attention); `quantization` the method of a checkpoint that is quantized, "" for 16 bit.
    """

    repo: str
    architecture: str
    layers: int | None = None
    heads: int | None = None
    kv_heads: int | None = None
    head_dim: int | None = None
    hidden: int | None = None
    vocab: int | None = None
    max_positions: int | None = None
    params_b: float | None = None
    active_params_b: float | None = None
    kv_bytes_per_token: int | None = None
    plain_attention: bool = False
    dtype: str = ""
    quantization: str = ""


class ModelDomain(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Models by repository."""

    as_of: str
    models: tuple[ModelRow, ...] = ()
