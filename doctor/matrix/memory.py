"""What sizing must know: bytes of number formats, how engines divide a card's memory."""

from __future__ import annotations

from msgspec import Struct

from doctor.matrix.model import Row


class WeightFormat(Row, frozen=True, kw_only=True):
    """A number format of weights and what one weight of it takes, scales included.

    `aliases` are other names it goes by (quant_method of a config.json, engine flags);
    `part` says what of a model it covers: "linear" (experts and projections), "experts"
    (attention stays at 16 bit) or "all" (embeddings too). `methods` are the keys of
    quantization claims that serve it, best first, `step` its place on the precision ladder
    (16, 8 or 4 bit; 0 for none). `pad_hidden` and `pad_width` are multiples to which
    expert kernels pad both sides of a matrix. `group` weights of a row share one scale where a
    checkpoint does not say how many, `block` is the side of a square of them.
    """

    key: str
    bytes_per_weight: float
    bits: int
    aliases: tuple[str, ...] = ()
    part: str = "linear"
    methods: tuple[str, ...] = ()
    step: int = 0
    pad_hidden: int = 1
    pad_width: int = 1
    group: int = 0
    block: int = 0


class KvFormat(Row, frozen=True, kw_only=True):
    """A number format of the KV cache and what one element of it takes."""

    key: str
    bytes_per_element: float
    aliases: tuple[str, ...] = ()


class GgmlType(Row, frozen=True, kw_only=True):
    """A tensor type of GGUF files: `elements` weights are stored in `size` bytes."""

    id: int
    name: str
    elements: int
    size: int


class Tier(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Defaults for cards of at least `from_gib`, unless their name has a word of `names_not`."""

    from_gib: float
    seqs: int
    batched: int
    batched_offline: int
    names_not: tuple[str, ...] = ()


class EnginePool(Row, frozen=True, kw_only=True):
    """How a range of versions of an engine sizes its KV pool.

    `generation` tells cores apart that one version has ("v0", "v1"), `default` the one that
    runs unless asked otherwise. The activation peak is the larger of `body_factor` times
    the widest layer and `sampler_bytes` for each of sequences times vocabulary.
    `non_torch_gib` is what is charged outside of the tensor allocator on one device,
    `non_torch_ranks_gib` on several. Graphs take `graph_layer_gib` a layer after the pool,
    unless `graph_charged_gib` a layer is taken off the pool. `unchunked` schedules a whole
    request at once below `long_context` tokens, `long_batched` tokens above. Of latent
    attention `latent_width` is the width at which each head is kept, 0 where the latent is.
    """

    engine: str
    generation: str = ""
    since: str = ""
    until: str = ""
    verified_to: str = ""
    default: bool = True
    utilization: float = 0.9
    body_factor: float = 1.0
    sampler_bytes: float = 39.0
    non_torch_gib: float = 0.0
    non_torch_ranks_gib: float = 0.0
    graph_layer_gib: float = 0.0
    graph_charged_gib: float = 0.0
    block: int = 16
    seqs: int = 256
    batched: int = 2048
    batched_offline: int = 8192
    unchunked: bool = False
    long_context: int = 0
    latent_width: int = 0
    long_batched: int = 0
    sliding_as_full: bool = False
    tiers: tuple[Tier, ...] = ()
    fitted: str = ""


class LayerSplit(Row, frozen=True, kw_only=True):
    """An engine that shares layers between devices and the CPU, and allocates all at start.

    `ubatch` tokens are computed at once, `reserve_gib` of each device is left to the driver.
    The context is rounded up to `block` tokens; from `windows_since` on sliding layers keep
    their window only. From `own_context_since` up to, not including, `own_context_until` a
    context that nobody states is as long as the model was trained for.
    """

    engine: str
    ubatch: int
    batch: int
    context: int
    reserve_gib: float
    block: int = 1
    windows_since: str = ""
    own_context_since: str = ""
    own_context_until: str = ""


class Placement(Row, frozen=True, kw_only=True):
    """Where an engine puts the weights of a model, and how it cuts them into ranks.

    `holds`: "device" keeps all of them on devices, "shared" leaves to the host what those do
    not hold, "process" is a plain framework that puts the model where a script says.
    `one_by_default`: one device is used unless an argument says more. `splits_heads`: ranks
    take whole attention heads; `whole_groups`, `whole_blocks`: and whole groups or blocks of
    one scale. `default_bits` are the bits a weight of models named without a format, 0 if unknown.
    `copies` multiply with the ranks of one copy of the model to the devices that are needed.
    `packages` beside another engine make it place weights like this one.
    """

    engine: str
    holds: str
    packages: tuple[str, ...] = ()
    one_by_default: bool = False
    splits_heads: bool = False
    whole_groups: bool = False
    whole_blocks: bool = False
    default_bits: int = 0
    copies: tuple[str, ...] = ()


class Margin(Row, frozen=True, kw_only=True):
    """A figure by which arithmetic is allowed to be off before a rule speaks."""

    key: str
    value: float


class CardTotal(Row, frozen=True, kw_only=True):
    """What CUDA reports as the memory of a product, in GiB: lowest and highest seen.

    `gpus` are keys of products ("l4"); for a product without a row, `share` of its nominal
    memory by class ("geforce") holds.
    """

    key: str
    gpus: tuple[str, ...] = ()
    gpu_class: str = ""
    gib: float = 0.0
    gib_high: float = 0.0
    share: float = 0.0


class NamedMemory(Row, frozen=True, kw_only=True):
    """The memory of products whose rows are not in `gpus`: sizes in GiB by words of their names."""

    vendor: str
    sizes: tuple[int, ...]
    names: tuple[str, ...]


class Residual(Row, frozen=True, kw_only=True):
    """How far a predicted pool may be off, by kind of workload: what decides "uncertain".

    The pool may be smaller than predicted by up to `over_gib` plus `over_share` of the
    activation peak, larger by up to `under_gib` plus `under_share`, plus `under_graphs` of
    what is charged for CUDA graphs.
    """

    kind: str
    over_gib: float
    under_gib: float
    over_share: float = 0.0
    under_share: float = 0.0
    under_graphs: float = 0.0
    fitted: str = ""


class Traits(Row, frozen=True, kw_only=True):
    """What config.json leaves to the code of an architecture; `architecture` is a prefix.

    `matrices` of a dense part (3 with a gate, 2 without), `norms` a layer, `bias` on
    queries, keys and values, `expert_bias`, `shared_like_expert` one shared expert as wide as
    a routed one, `dense_beside` a dense part beside the experts of each layer.
    `sliding_period` means that one layer in so many is not a sliding one.
    """

    architecture: str
    tied: bool | None = None
    matrices: int | None = None
    norms: int | None = None
    bias: bool | None = None
    expert_bias: bool = False
    shared_like_expert: bool = False
    dense_beside: bool = False
    sliding_period: int | None = None


class Thumb(Row, frozen=True, kw_only=True):
    """A rule of thumb for comparison: weights times `factor`, plus KV, plus `fixed_gb` (10^9)."""

    key: str
    factor: float
    fixed_gb: float


class Reference(Row, frozen=True, kw_only=True):
    """A model that stands for its size class where no model is named ("7B")."""

    size: str
    repo: str


class MemoryDomain(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All that sizing takes from the matrix beside models and cards."""

    as_of: str
    weight_formats: tuple[WeightFormat, ...] = ()
    kv_formats: tuple[KvFormat, ...] = ()
    ggml_types: tuple[GgmlType, ...] = ()
    pools: tuple[EnginePool, ...] = ()
    splits: tuple[LayerSplit, ...] = ()
    placements: tuple[Placement, ...] = ()
    margins: tuple[Margin, ...] = ()
    card_totals: tuple[CardTotal, ...] = ()
    named_memory: tuple[NamedMemory, ...] = ()
    residuals: tuple[Residual, ...] = ()
    traits: tuple[Traits, ...] = ()
    thumbs: tuple[Thumb, ...] = ()
    references: tuple[Reference, ...] = ()
