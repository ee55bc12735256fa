"""Published models by name."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import lru_cache

import msgspec

from doctor.matrix import Matrix
from doctor.matrix.architectures import ModelRow
from doctor.sizing.cards import GIB
from doctor.sizing.formats import find_weight_format
from doctor.sizing.model import Model, Quantization

_BILLION = 10**9
_FULL = "full"
# Methods that write several number formats.
_SEVERAL = ("modelopt", "compressed-tensors", "quark", "mixed_precision")
# What is a checkpoint's own, and what all checkpoints of one model share.
_OWN = ("repo", "quantization", "quant_block", "weight_format", "checkpoint_gib", "max_positions")
_WIDTHS = ("layers", "hidden", "heads", "kv_heads", "head_dim", "vocab", "intermediate")
# Parts of a repository's name that say how its weights are stored, not what shape they have.
_STORAGE = re.compile(
    r"[-_. ](awq|gptq|gguf|fp8|fp16|bf16|nvfp4|mxfp4|mxfp8|fp4|int4|int8|4bit|8bit|w4a16|w8a8|"
    r"bnb|autoround|unsloth|dynamic|quantized|marlin|hf|instruct|it|chat|base|"
    r"q\d_k(_[a-z]+)?|q\d_\d|\d+bit)(?=$|[-_. (])",
    re.IGNORECASE,
)
# Words in a name that tell its format, best first.
_PLAIN_WORDS = re.compile(r"(?<![a-z0-9])(?:bf16|fp16)(?![a-z0-9])", re.I)
_FORMAT_WORDS = re.compile(
    r"(?<![a-z0-9])(awq|gptq|nvfp4|mxfp4|mxfp8|fp8|w4a16|w8a8|int8|int4|nf4|bnb)(?![a-z0-9])", re.I
)


def known_model(matrix: Matrix, name: str) -> Model | None:
    """The model of that repository or name; None if none or several differing ones fit.

    A quantized variant has the widths of its base: "Qwen/Qwen3-8B-AWQ" is known if
    "Qwen/Qwen3-8B" is, with the format that its name tells.
    """
    wanted = name.strip().lower()
    exact = next((row for row in matrix.models if row.repo.lower() == wanted), None)
    if exact is not None:
        return model_of(matrix, exact)
    plain = plain_name(name)
    rows = [row for row in matrix.models if plain and plain_name(row.repo) == plain]
    shapes = {(row.heads, row.kv_heads, row.layers, row.hidden) for row in rows}
    if len(shapes) != 1:
        return None
    # Of several checkpoints of one shape, the one that is not quantized.
    base = min(rows, key=lambda row: (row.quantization != "", len(row.repo)))
    return _variant(matrix, model_of(matrix, base), name)


@lru_cache(maxsize=2048)
def plain_name(name: str) -> str:
    """A model's name without owner, number format and tuning: what fixes its shape."""
    base = name.rpartition("/")[2].partition(" (")[0].lower().strip()
    previous = ""
    while base != previous:
        previous, base = base, _STORAGE.sub("", base)
    return base.removeprefix("meta-").replace(" ", "-").replace("_", "-")


def _variant(matrix: Matrix, base: Model, name: str) -> Model:
    word = _FORMAT_WORDS.search(name)
    form = find_weight_format(matrix.memory, word[1]) if word else None
    is_plain = word is None and _PLAIN_WORDS.search(name) is not None
    quantization = Quantization(form) if form else None if is_plain else base.quantization
    return replace(base, name=name, quantization=quantization, unclear="")


def model_of(matrix: Matrix, row: ModelRow) -> Model:
    """The widths of one row, completed from a row of the same shape where it lacks some."""
    row = _completed(matrix, row)
    quantization, unclear = _quantization(matrix, row)
    kinds = dict(row.kinds) or ({_FULL: row.layers} if row.layers else {})
    return Model(
        name=row.repo,
        architecture=row.architecture,
        layers=row.layers,
        hidden=row.hidden,
        heads=row.heads,
        kv_heads=row.kv_heads,
        head_dim=row.head_dim or _head_dim(row),
        vocab=row.vocab,
        intermediate=row.intermediate,
        positions=row.max_positions,
        tied=row.tied,
        bias=row.bias,
        gated=row.gated,
        kinds=kinds,
        window=row.window,
        chunk=row.chunk,
        global_head_dim=row.global_head_dim,
        global_kv_heads=row.global_kv_heads,
        kv_shared_layers=row.kv_shared_layers,
        experts=row.experts,
        latent=row.latent,
        linear=row.linear,
        state_space=row.state_space,
        params=None if row.params_b is None else round(row.params_b * _BILLION),
        published=None if row.checkpoint_gib is None else round(row.checkpoint_gib * GIB),
        tower=round((row.tower_b or 0) * _BILLION),
        is_multimodal=bool(row.tower_b) or "ForConditionalGeneration" in row.architecture,
        quantization=quantization,
        unclear=unclear,
        at=f"matrix, {row.repo}",
    )


def _completed(matrix: Matrix, row: ModelRow) -> ModelRow:
    """The row with the widths of another checkpoint of the same model: of "R1" for "R1-0528"."""
    if row.vocab is not None or row.layers is None:
        return row
    twins = (r for r in matrix.models if r.vocab is not None and _same_model(r, row))
    twin = next(twins, None)
    if twin is None:
        return row
    own = {name: getattr(row, name) for name in _OWN}
    return msgspec.structs.replace(twin, **own)


def _same_model(other: ModelRow, row: ModelRow) -> bool:
    """True if one name begins with the other and all widths that both state agree."""
    names = sorted((plain_name(other.repo), plain_name(row.repo)), key=len)
    if not names[1].startswith(names[0]) or other.architecture != row.architecture:
        return False
    pairs = ((getattr(other, key), getattr(row, key)) for key in _WIDTHS)
    return all(None in pair or pair[0] == pair[1] for pair in pairs)


def _head_dim(row: ModelRow) -> int | None:
    return row.hidden // row.heads if row.hidden and row.heads else None


def _quantization(matrix: Matrix, row: ModelRow) -> tuple[Quantization | None, str]:
    if not row.quantization:
        return None, ""
    method = (row.weight_format or row.quantization).lower()
    if method in _SEVERAL:
        return None, method
    if method == "fp8" and row.quant_block:
        method = "fp8_block128"
    form = find_weight_format(matrix.memory, method)
    return (Quantization(form), "") if form else (None, method)
