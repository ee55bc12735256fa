"""One question of `doctor fit`, from what a person named to everything that the report shows."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from doctor.errors import ExitCode, UsageError
from doctor.examine import Sources, gather, parse_engine
from doctor.facts import Facts, Version
from doctor.matrix import Matrix, load_matrix
from doctor.sizing.advice import Change, changes
from doctor.sizing.cards import GIB, Card, card_of, memory_card
from doctor.sizing.fit import predict
from doctor.sizing.formats import kv_format, weight_format
from doctor.sizing.ladder import Step, ladder
from doctor.sizing.model import Model
from doctor.sizing.parallel import Parallel, links_of, parallel
from doctor.sizing.pools import split_row
from doctor.sizing.prediction import Fit, Prediction
from doctor.sizing.settings import Deployment
from doctor.sizing.source import find_model
from doctor.sizing.support import Answer, Engine, refusal
from doctor.sizing.survey import SizeRow, survey
from doctor.sizing.thumb import thumb_bytes, thumb_kv_bytes
from doctor.sizing.weights import Weights

_COUNTED = re.compile(r"(\S.{0,80}?)[x*](\d{1,4})")
_MOST_CARDS = 1024
_LENGTHS = (2048, 4096, 8192, 16384, 32768, 65536, 131072)
_MIB = 1 << 20
_DEFAULT = "vllm"
_GGUF_ENGINE = "llama.cpp"


@dataclass(frozen=True)
class Question:
    """What a person asked. Without `model`: what fits here. `args` are engine-neutral."""

    model: str = ""
    engine: str = ""
    gpu: str = ""
    count: int | None = None
    memory_gib: float | None = None
    host: str = ""
    sources: Sources = Sources()
    args: Mapping[str, Any] = field(default_factory=dict)
    what_if: bool = False


@dataclass(frozen=True)
class Cell:
    """One cell of the what-if table: a length and a KV format."""

    length: int
    kv: str
    prediction: Prediction


@dataclass(frozen=True)
class FitReport:
    """Everything about one question; `prediction` is None for the survey of what fits.

    `refused` are number formats that the engine does not take on this card. `thumb` is the
    rule of thumb's total in bytes for all ranks, `ours` the same of sizing.
    """

    source: str
    asked: Deployment
    prediction: Prediction | None = None
    steps: tuple[Step, ...] = ()
    changes: tuple[Change, ...] = ()
    parallel: Parallel | None = None
    refused: tuple[Answer, ...] = ()
    thumb: int | None = None
    ours: int | None = None
    cells: tuple[Cell, ...] = ()
    rows: tuple[SizeRow, ...] = ()
    matrix_version: str = ""
    matrix_as_of: str = ""

    @property
    def exit_code(self) -> ExitCode:
        """0 if it fits, 1 if it does not or is refused, 3 if uncertain; 0 for a survey."""
        if self.refused:
            return ExitCode.NO
        if self.prediction is None or self.prediction.verdict is Fit.FITS:
            return ExitCode.OK
        no = self.prediction.verdict is Fit.DOES_NOT
        return ExitCode.NO if no else ExitCode.CANNOT_TELL


def fit(question: Question) -> FitReport:
    """Answer the question; raises UsageError for what cannot be read or is not known."""
    matrix = load_matrix()
    _check_formats(matrix, question.args)
    model = find_model(matrix, question.model) if question.model else None
    facts, source = _facts(question)
    cards = _cards(matrix, question, facts)
    engine, version = _engine(matrix, question, model, facts)
    version = version or matrix.newest(engine)
    if not cards and split_row(matrix.memory, engine) is not None:
        cards = _host_memory(facts)
    if not cards and model is None:
        raise UsageError("no device with memory is known here", 'name one: --gpu "RTX 4090"')
    asked = Deployment(engine, version, cards, question.args)
    links = links_of(facts, cards)
    report = FitReport(source, asked, matrix_version=matrix.version, matrix_as_of=matrix.as_of)
    if model is None:
        return replace(report, rows=survey(matrix, asked, links))
    return _about(matrix, model, report, links, question.what_if)


def _about(
    matrix: Matrix, model: Model, report: FitReport, links: tuple[str, ...], what_if: bool
) -> FitReport:
    shared = parallel(model, report.asked.cards, links)
    asked = _spread(report.asked, shared)
    found = predict(matrix, model, asked)
    return replace(
        report,
        asked=asked,
        prediction=found,
        steps=ladder(matrix, model, asked),
        changes=changes(matrix, model, asked, found),
        parallel=shared if len(asked.cards) > 1 else None,
        refused=tuple(_refusals(matrix, asked, found)),
        thumb=_thumb(matrix, model, found),
        ours=_total(found),
        cells=tuple(_cells(matrix, model, asked)) if what_if else (),
    )


def _check_formats(matrix: Matrix, args: Mapping[str, Any]) -> None:
    """Refuse number formats that are not known, with the list of those that are."""
    for key in ("quantization", "dtype"):
        stated = str(args.get(key) or "")
        if stated and stated != "auto":
            weight_format(matrix.memory, stated)
    kv_format(matrix.memory, str(args.get("kv_cache_dtype") or "auto"))


def _facts(question: Question) -> tuple[Facts, str]:
    from doctor.intake.field_report import read_field_report

    named = question.gpu
    if question.memory_gib is not None and not named and not question.host:
        return Facts(), "a device of stated memory"
    if question.host and not named:
        gathered = gather(replace(question.sources, host=question.host))
        return gathered.facts, question.host
    if not named:
        gathered = gather(question.sources)
        return gathered.facts, gathered.source
    glued = _COUNTED.fullmatch(named)
    text = f"{glued[2]}x {glued[1].strip()}" if glued else named
    entry: dict[str, Any] = {"name": text}
    if question.count is not None:
        entry["count"] = question.count
    return read_field_report({"gpus": [entry]}), named


def _cards(matrix: Matrix, question: Question, facts: Facts) -> tuple[Card, ...]:
    """The devices as cards; raises UsageError for a product that nobody knows."""
    devices = facts.devices.value or ()
    if question.memory_gib is not None:
        total = int(question.memory_gib * GIB)
        known = [card_of(matrix, device) for device in devices[:1]]
        base = next((card for card in known if card), memory_card(total))
        count = question.count or max(len(devices), 1)
        return (replace(base, total=total, is_read=True, how="as stated"),) * count
    named = question.gpu or question.host
    for device in devices if named else ():
        if device.vendor == "nvidia" and not matrix.gpus_matching(device):
            raise UsageError(
                f"no GPU fits {str(device.name.value)[:60]!r}",
                "write it as nvidia-smi does, or give --memory-gib",
            )
    found = [card_of(matrix, device) for device in devices[:_MOST_CARDS]]
    return tuple(card for card in found if card is not None)


def _host_memory(facts: Facts) -> tuple[Card, ...]:
    """The host's memory as one device, for engines that run on the CPU."""
    reading = facts.host.memory_available_mib.value or facts.host.memory_mib.value
    return (memory_card(reading * _MIB, "host memory", "cpu"),) if reading else ()


def _engine(
    matrix: Matrix, question: Question, model: Model | None, facts: Facts
) -> tuple[str, Version | None]:
    """The engine asked for; else the one that runs here; else one that suits the file."""
    if question.engine:
        named, version = parse_engine(question.engine)
        engine = matrix.canonical(named)
        if engine is None:
            raise UsageError(
                f"engine {named[:40]!r} is not known", f"known: {', '.join(matrix.engine_names)}"
            )
        return engine, version or _installed(facts, engine)
    if model is not None and _is_gguf(model):
        return _GGUF_ENGINE, None
    running = next(iter(facts.workloads), None)
    engine = (matrix.canonical(running.engine) if running else None) or _DEFAULT
    version = running.version.value if running else None
    return engine, version or _installed(facts, engine)


def _is_gguf(model: Model) -> bool:
    form = model.quantization.format if model.quantization else None
    return model.stored is not None and form is not None and form.part == "all"


def _installed(facts: Facts, engine: str) -> Version | None:
    found = (scope.package(engine) for scope in facts.scopes)
    return next((package.version for package in found if package), None)


def _spread(asked: Deployment, shared: Parallel) -> Deployment:
    """Use all cards where nothing was said of ranks."""
    keys = ("tensor_parallel_size", "pipeline_parallel_size")
    if any(asked.args.get(key) for key in keys):
        return asked
    sizes = dict(zip(keys, (shared.tp, shared.pp), strict=True))
    return replace(asked, args={**asked.args, **sizes})


def _refusals(matrix: Matrix, asked: Deployment, found: Prediction) -> Iterator[Answer]:
    """Number formats of weights and cache that the engine is known not to take here."""
    engine = Engine(asked.engine, asked.version, found.card)
    form = found.serving.quantization
    stated = str(asked.args.get("quantization") or "").lower()
    methods = (*((stated,) if stated else ()), *(form.format.methods if form else ()))
    kv = str(asked.args.get("kv_cache_dtype") or "").lower()
    for kind, names in (("quantization", methods), ("kv-dtype", (kv,))):
        refused = refusal(matrix, kind, engine, names) if any(names) else None
        if refused is not None:
            yield refused


def _thumb(matrix: Matrix, model: Model, found: Prediction) -> int | None:
    """The rule of thumb for all ranks together."""
    rule = next(iter(matrix.memory.thumbs), None)
    length = found.serving.length
    params = _params(model, found.weights)
    if rule is None or length is None or not params:
        return None
    kv = thumb_kv_bytes(model, length * found.serving.requests)
    form = found.serving.quantization
    return None if kv is None else thumb_bytes(rule, params, form.format.bits if form else 16, kv)


def _params(model: Model, weights: Weights | None) -> int:
    return (weights.params if weights else 0) or model.params or 0


def _total(found: Prediction) -> int | None:
    """Weights, KV and overheads of all ranks, by sizing."""
    if found.weights is None or found.request is None:
        return None
    each = found.weights.bytes + found.request * found.serving.requests
    rest = found.activation + found.non_torch + max(found.graphs, found.graphs_charged)
    return (each + rest) * found.serving.ranks


def _cells(matrix: Matrix, model: Model, asked: Deployment) -> list[Cell]:
    cells = []
    for length in _LENGTHS:
        if model.positions and length > model.positions:
            break
        for kv in ("auto", "fp8"):
            args = {**asked.args, "max_model_len": length, "kv_cache_dtype": kv}
            cells.append(Cell(length, kv, predict(matrix, model, replace(asked, args=args))))
    return cells
