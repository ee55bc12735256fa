"""Bytes of weights on one rank, by kind, under tensor and pipeline parallelism."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from doctor.matrix.memory import MemoryDomain, WeightFormat
from doctor.sizing.model import Model, Quantization, Stored, need
from doctor.sizing.params import Part, Split, parts, total_weights

HALF = 2  # bytes of a 16-bit weight

# How ranks share the kinds that files tell apart; the others evenly.
_SPLITS = {
    "norms": Split.COPIES,
    "router": Split.COPIES,
    "latent": Split.COPIES,
    "rotary": Split.COPIES,
    "kv": Split.KV_HEADS,
}
# Kinds that one rank of a pipeline holds whole.
_END_KINDS = ("embedding", "head", "tower", "rotary")


@dataclass(frozen=True)
class Weights:
    """Bytes of weights on the fullest rank; `by_kind` sums to `bytes`. `params` is of all ranks."""

    bytes: int
    by_kind: Mapping[str, int]
    params: int
    how: str


def rank_weights(
    model: Model, memory: MemoryDomain, quantization: Quantization | None, tp: int = 1, pp: int = 1
) -> Weights:
    """Weights of the fullest rank: from files where they were read, else from widths.

    Raises MissingFact where a width is not known and no total is stated.
    """
    if model.stored is not None and quantization is model.quantization:
        return _from_files(model, model.stored, tp, pp)
    return _from_widths(model, memory, quantization, tp, pp)


def _from_widths(
    model: Model, memory: MemoryDomain, quantization: Quantization | None, tp: int, pp: int
) -> Weights:
    found = parts(model, memory)
    sizes: list[tuple[Part, Fraction]] = [
        (part, _bytes(part, model, quantization, tp) * share(part.split, tp, model.kv_heads))
        for part in (*found, *_copies(model, quantization))
    ]
    ranked = _pipelined(sizes, need(model.layers, "layers of the model"), pp)
    by_kind: dict[str, Fraction] = {}
    for kind, size in ranked:
        by_kind[kind] = by_kind.get(kind, Fraction(0)) + size
    whole = {kind: round(size) for kind, size in by_kind.items()}
    return Weights(sum(whole.values()), whole, total_weights(found), "from the model's widths")


def share(split: Split, tp: int, kv_heads: int | None) -> Fraction:
    """The part of the whole that one tensor-parallel rank holds."""
    if split is Split.COPIES:
        return Fraction(1)
    if split is Split.KV_HEADS and kv_heads and tp > kv_heads:
        return Fraction(1, kv_heads)
    return Fraction(1, tp)


def _bytes(part: Part, model: Model, quantization: Quantization | None, tp: int) -> Fraction:
    """Bytes of the part on all ranks together."""
    if quantization is None:
        return Fraction(part.weights * HALF)
    form = quantization.format
    each = Fraction(form.bytes_per_weight)
    if form.part == "all":
        return part.weights * (each if part.kind not in ("rotary", "tower") else Fraction(HALF))
    covered = part.is_quantized and (form.part == "linear" or part.kind == "experts")
    if not covered:
        return Fraction(part.weights * max(HALF, form.bytes_per_weight if form.bits > 16 else 0))
    kept = Fraction(quantization.kept.get(part.kind, 0.0))
    padded = part.weights * _padding(part, model, form, tp)
    return padded * each * (1 - kept) + part.weights * HALF * kept


def _padding(part: Part, model: Model, form: WeightFormat, tp: int) -> Fraction:
    """How much larger expert kernels make the matrices of this part."""
    if part.kind != "experts" or not part.width or not model.hidden:
        return Fraction(1)
    width = -(-part.width // tp)
    wide = -(-width // form.pad_width) * form.pad_width
    tall = -(-model.hidden // form.pad_hidden) * form.pad_hidden
    return Fraction(wide * tall * tp, part.width * model.hidden)


def _copies(model: Model, quantization: Quantization | None) -> tuple[Part, ...]:
    """Latent attention of a quantized checkpoint keeps its up-projection at 16 bit as well."""
    sizes = model.latent
    if quantization is None or quantization.format.bits >= 16 or sizes is None:
        return ()
    if sizes.nope is None or sizes.value is None or quantization.format.part != "linear":
        return ()
    up = sizes.kv_rank * (model.heads or 0) * (sizes.nope + sizes.value)
    return (Part("attention", model.keeping * up, is_quantized=False),)


def _pipelined(
    sizes: list[tuple[Part, Fraction]], layers: int, pp: int
) -> list[tuple[str, Fraction]]:
    """What the fullest rank of a pipeline holds: its layers, and the larger of both ends."""
    if pp == 1:
        return [(part.kind, size) for part, size in sizes]
    held = Fraction(-(-layers // pp), layers)
    ends = {place: [s for p, s in sizes if p.place == place] for place in ("first", "last")}
    # A tied head is a second copy of the embedding on the last rank.
    place = "last" if sum(ends["last"]) > sum(ends["first"]) else "first"
    body = [(part.kind, size * held) for part, size in sizes if part.place == "layers"]
    return body + [(part.kind, size) for part, size in sizes if part.place == place]


def _from_files(model: Model, stored: Stored, tp: int, pp: int) -> Weights:
    layers = max(model.layers or 1, 1)
    held = Fraction(-(-layers // pp), layers)
    ends = stored.by_kind.get("embedding", 0), stored.by_kind.get("head", 0)
    absent = "head" if ends[0] >= ends[1] else "embedding"
    by_kind: dict[str, int] = {}
    for kind, size in (*stored.by_kind.items(), ("rotary", _rotary_bytes(model))):
        if pp > 1 and kind == absent:
            continue
        part = Fraction(1) if kind in _END_KINDS else held
        by_kind[kind] = round(
            size * part * share(_SPLITS.get(kind, Split.EVEN), tp, model.kv_heads)
        )
    return Weights(sum(by_kind.values()), by_kind, model.params or 0, "from the model's files")


def _rotary_bytes(model: Model) -> int:
    width = model.latent.rope if model.latent else (model.head_dim or 0)
    return int((model.positions or 0) * width * model.rotary_share) * HALF


def published_weights(
    model: Model, quantization: Quantization | None, ranks: int = 1
) -> Weights | None:
    """Weights as large as the published files, spread evenly; None if that is not known."""
    if model.published is None or quantization is not model.quantization:
        return None
    size = model.published // ranks
    return Weights(size, {"all": size}, model.params or 0, "from the published files")


def stated_weights(
    model: Model, quantization: Quantization | None, ranks: int = 1
) -> Weights | None:
    """Weights of a stated number of parameters, spread evenly; None if none is stated."""
    if model.params is None:
        return None
    each = quantization.format.bytes_per_weight if quantization else HALF
    size = int(model.params * each / ranks)
    return Weights(size, {"all": size}, model.params, "from the stated number of parameters")
