"""Published models: the figures of their config.json that rules and sizing need."""

from __future__ import annotations

from msgspec import Struct, field

from doctor.matrix.model import Row


class Shape(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Widths of one part of a model; None where unknown."""


class Experts(Shape, frozen=True, kw_only=True):
    """A mixture of experts: how many there are and are used for a token, and their widths.

    `shared` is the width of all shared experts of a layer together, `layers` the number of
    layers with experts; the others have a dense part of width `dense`.
    """

    count: int
    active: int | None = None
    width: int | None = None
    shared: int = 0
    layers: int | None = None
    dense: int | None = None


class Latent(Shape, frozen=True, kw_only=True):
    """Multi-head latent attention: ranks and head widths; `index_*` of a sparse indexer."""

    kv_rank: int
    rope: int
    nope: int | None = None
    value: int | None = None
    q_rank: int | None = None
    index_heads: int | None = None
    index_dim: int | None = None


class Linear(Shape, frozen=True, kw_only=True):
    """Gated linear attention layers: heads, their widths, the length of the convolution."""

    key_heads: int
    value_heads: int
    key_dim: int
    value_dim: int
    conv: int = 4


class StateSpace(Shape, frozen=True, kw_only=True):
    """Mamba-2 layers: heads, their width, groups, state size, the length of the convolution."""

    heads: int
    head_dim: int
    groups: int = 1
    state: int = 128
    conv: int = 4


class ModelRow(Row, frozen=True, kw_only=True):
    """One model repository. `params_b` counts all parameters of the text part, in 10^9.

    `tower_b` counts those of its vision and audio encoders beside it;
    `kv_bytes_per_token` is for 16-bit KV on one device, sliding layers counted as full;
    `plain_attention` says that every layer keeps all tokens (no sliding window, no latent
    or linear attention); `quantization` the method of a checkpoint that is quantized, "" for
    16 bit, `quant_block` the side of its scale blocks, `weight_format` the number format where
    the method leaves it open. `kinds` counts layers by what they keep of the past: full,
    sliding, chunked, linear, mamba2, mlp, moe (the last two keep nothing); empty means that
    all are full. `window` and `chunk` are in tokens, `global_*` those of full layers where
    they differ from sliding ones, `gated` marks an output gate beside the queries.
    `checkpoint_gib` is the size of the published weight files, duplicates included. `padded`
    says that its maker widens the dense part to whole groups before it is quantized.
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
    tower_b: float | None = None
    kv_bytes_per_token: int | None = None
    plain_attention: bool = False
    dtype: str = ""
    quantization: str = ""
    quant_block: int | None = None
    weight_format: str = ""
    intermediate: int | None = None
    tied: bool | None = None
    bias: bool | None = None
    gated: bool = False
    kinds: dict[str, int] = field(default_factory=dict)
    window: int | None = None
    chunk: int | None = None
    global_head_dim: int | None = None
    global_kv_heads: int | None = None
    kv_shared_layers: int = 0
    experts: Experts | None = None
    latent: Latent | None = None
    linear: Linear | None = None
    state_space: StateSpace | None = None
    checkpoint_gib: float | None = None
    padded: bool = False


class ListedModels(Row, frozen=True, kw_only=True):
    """Names of models by architecture, where nothing else is known of them.

    A name is written without owner, number format and tuning, in small letters.
    """

    group: str
    architectures: dict[str, tuple[str, ...]]


class ScaledCheckpoints(Row, frozen=True, kw_only=True):
    """Checkpoints of one maker that have one scale for each square of `block` weights a side.

    `suffix` is a regular expression that their names, in small letters, hold.
    """

    owner: str
    suffix: str
    block: int


class DefaultTag(Row, frozen=True, kw_only=True):
    """What a name of Ollama's library without a size behind it stands for: a tag like "70b"."""

    default: str
    names: tuple[str, ...]


class ModelDomain(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Models by repository, habits of their makers, and names of which less is known."""

    as_of: str
    models: tuple[ModelRow, ...] = ()
    scaled: tuple[ScaledCheckpoints, ...] = ()
    default_tags: tuple[DefaultTag, ...] = ()
    listed: tuple[ListedModels, ...] = ()
