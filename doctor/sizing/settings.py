"""The settings that an engine would run with: what was asked for, over the defaults."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from doctor.facts import Version
from doctor.matrix import Matrix
from doctor.matrix.memory import EnginePool, KvFormat, Tier
from doctor.sizing.cards import Card
from doctor.sizing.formats import find_weight_format, kv_format
from doctor.sizing.kv import KvPlan
from doctor.sizing.model import Model, Quantization
from doctor.sizing.pools import pool_row, tier, weakest

_MOST = 1 << 31
_NUMBER = re.compile(r"(\d{1,12})\s?([kKmM]?)")
_SCALES = {"": 1, "k": 1000, "K": 1024, "m": 1000**2, "M": 1024**2}
_TRUE = ("true", "1", "yes", "on")
_OFF = ("", "0", "0.0", "false", "no", "off", "none", "null")
# Settings that take or give memory in ways that no row of the matrix describes.
_UNMODELLED = (
    "cpu_offload_gb",
    "enable_lora",
    "speculative_config",
    "speculative_model",
    "num_speculative_tokens",
)
# The second core came to these cards only when the first was removed.
_V1_FROM = 8


@dataclass(frozen=True)
class Deployment:
    """An engine of some version on some cards, with engine-neutral arguments."""

    engine: str
    version: Version | None = None
    cards: tuple[Card, ...] = ()
    args: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Serving:
    """One engine with all settings that memory depends on. `assumed` are those not stated.

    `length` is the longest request (None where neither said nor known; `length_is_assumed`
    where only the model's own limit is known), `is_auto` means that the engine lowers it
    until it fits. `requests` of that length are to fit at once. `quantization` is None for
    16 bit, `unclear` names a format whose bytes are not known, `unmodelled` settings whose
    memory is not known.
    """

    engine: str
    version: Version | None
    row: EnginePool | None
    tp: int
    pp: int
    dcp: int
    length: int | None
    length_is_assumed: bool
    is_auto: bool
    requests: int
    seqs: int
    batched: int
    utilization: float
    kv: KvFormat
    quantization: Quantization | None
    unclear: str
    eager: bool
    block: int
    assumed: tuple[str, ...] = ()
    unmodelled: tuple[str, ...] = ()

    @property
    def ranks(self) -> int:
        """Devices that one copy of the model takes."""
        return self.tp * self.pp

    def kv_plan(self) -> KvPlan:
        """How this engine lays its cache out."""
        return KvPlan(
            format=self.kv,
            tp=self.tp,
            pp=self.pp,
            dcp=self.dcp,
            block=self.block,
            batched=self.batched,
            sliding_as_full=self.row is None or self.row.sliding_as_full,
            latent_width=self.row.latent_width if self.row else 0,
        )


def serving(matrix: Matrix, model: Model, asked: Deployment) -> Serving:
    """Settings from arguments; one that cannot be read is left out."""
    args, notes = asked.args, list[str]()
    row = pool_row(matrix.memory, asked.engine, asked.version, _generation(asked))
    large = tier(row, weakest(asked.cards)) if row else None
    length, is_auto = _length(model, args, notes)
    quantization, unclear = _quantization(matrix, model, args, notes)
    return Serving(
        engine=asked.engine,
        version=asked.version,
        row=row,
        tp=count(args, "tensor_parallel_size") or 1,
        pp=count(args, "pipeline_parallel_size") or 1,
        dcp=count(args, "decode_context_parallel_size") or 1,
        length=length,
        length_is_assumed=count(args, "max_model_len") is None,
        is_auto=is_auto,
        requests=count(args, "concurrency") or 1,
        seqs=_seqs(row, large, args, notes),
        batched=_batched(row, large, args, length, notes),
        utilization=_utilization(matrix, asked, row, notes),
        kv=_kv(matrix, args, notes),
        quantization=quantization,
        unclear=unclear,
        eager=str(args.get("enforce_eager", "")).lower() in _TRUE,
        block=count(args, "block_size") or (row.block if row else 1),
        assumed=tuple(notes),
        unmodelled=tuple(name for name in _UNMODELLED if _is_on(args.get(name))),
    )


def count(args: Mapping[str, Any], name: str) -> int | None:
    """A positive whole number under that name ("8192", "32K"), else None."""
    value = args.get(name)
    if value is None or isinstance(value, bool):
        return None
    match = _NUMBER.fullmatch(str(value).strip().removesuffix(".0"))
    number = int(match[1]) * _SCALES[match[2]] if match else 0
    return number if 0 < number <= _MOST else None


def _is_on(value: object) -> bool:
    return value is not None and str(value).strip().lower() not in _OFF


def _generation(asked: Deployment) -> str:
    stated = str(asked.args.get("engine_core", asked.args.get("VLLM_USE_V1", ""))).lower()
    if stated in ("v0", "v1"):
        return stated
    if stated in ("0", "1"):
        return f"v{stated}"
    known = [card.capability for card in asked.cards if card.capability is not None]
    return "v0" if any(each.major < _V1_FROM for each in known) else ""


def _length(model: Model, args: Mapping[str, Any], notes: list[str]) -> tuple[int | None, bool]:
    stated = args.get("max_model_len")
    if str(stated).strip().lower() in ("auto", "-1"):
        return model.positions, True
    length = count(args, "max_model_len")
    if length is None and model.positions:
        notes.append(f"max_model_len {model.positions}, the model's own")
        return model.positions, False
    return length, False


def _seqs(
    row: EnginePool | None, large: Tier | None, args: Mapping[str, Any], notes: list[str]
) -> int:
    stated = count(args, "max_num_seqs")
    if stated is not None or row is None:
        return stated or 1
    top = max((each.seqs for each in row.tiers), default=row.seqs)
    seqs = large.seqs if large else (top if args.get("offline") else row.seqs)
    notes.append(f"max_num_seqs {seqs}")
    return seqs


def _batched(
    row: EnginePool | None,
    large: Tier | None,
    args: Mapping[str, Any],
    length: int | None,
    notes: list[str],
) -> int:
    stated = count(args, "max_num_batched_tokens")
    if stated is not None or row is None:
        return stated or 0
    defaults = large or row
    batched = defaults.batched_offline if args.get("offline") else defaults.batched
    if row.unchunked:
        batched = _whole_requests(row, args, length or 0)
    notes.append(f"max_num_batched_tokens {batched}")
    return batched


def _whole_requests(row: EnginePool, args: Mapping[str, Any], length: int) -> int:
    """Without chunked prefill a whole request is computed at once; long ones are chunked."""
    chunked = str(args.get("enable_chunked_prefill", "")).lower() in _TRUE
    if chunked or length > row.long_context:
        return row.long_batched
    return max(length, row.batched)


def _utilization(
    matrix: Matrix, asked: Deployment, row: EnginePool | None, notes: list[str]
) -> float:
    try:
        stated = float(str(asked.args.get("gpu_memory_utilization")))
    except ValueError:
        stated = 0.0
    if 0 < stated <= 1:
        return stated
    value = _claimed(matrix, asked.engine, asked.version) or (row.utilization if row else 1.0)
    if row is not None:
        notes.append(f"gpu_memory_utilization {value:g}")
    return value


def _claimed(matrix: Matrix, engine: str, version: Version | None) -> float | None:
    known = version or matrix.newest(engine)
    for match in matrix.claims(engine, "parameter", known, "gpu_memory_utilization"):
        default = match.claim.data.get("default")
        if default:
            return float(default)
    return None


def _kv(matrix: Matrix, args: Mapping[str, Any], notes: list[str]) -> KvFormat:
    stated = str(args.get("kv_cache_dtype") or "auto")
    names = {form for row in matrix.memory.kv_formats for form in (row.key, *row.aliases)}
    if stated.strip().lower() not in names:
        notes.append(f"KV cache of {stated[:40]} counted as 16 bit")
        stated = "auto"
    return kv_format(matrix.memory, stated)


def _quantization(
    matrix: Matrix, model: Model, args: Mapping[str, Any], notes: list[str]
) -> tuple[Quantization | None, str]:
    """What was asked for; else the checkpoint's own; else 16 bit."""
    memory = matrix.memory
    stated = str(args.get("quantization") or "").strip().lower()
    if not stated:
        dtype = find_weight_format(memory, str(args.get("dtype") or ""))
        if dtype is not None and dtype.bits > 16 and model.quantization is None:
            return Quantization(dtype), ""
        return model.quantization, model.unclear
    found = find_weight_format(memory, stated)
    own = model.quantization
    if own is not None and (found is None or found.bits == own.format.bits):
        return own, ""
    if found is None:
        notes.append(f"bytes of {stated[:40]} are not known")
        return None, stated
    return (None if found.bits == 16 else Quantization(found)), ""
