"""The cheapest change that makes a model fit, tried in order of what it costs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from doctor.matrix import Matrix
from doctor.sizing.fit import predict
from doctor.sizing.kv import longest_request
from doctor.sizing.ladder import ladder
from doctor.sizing.model import Model
from doctor.sizing.pools import weakest
from doctor.sizing.prediction import Prediction
from doctor.sizing.settings import Deployment
from doctor.sizing.support import Engine, Support, support

Args = Mapping[str, Any]

_SEQS = (256, 128, 64, 32, 16)
_LEAST_LENGTH = 1024
_ROUND = 256
_RANKS = (2, 4, 8, 16)
_MOST_CHANGES = 4


@dataclass(frozen=True)
class Change:
    """One change: what it does, the arguments that differ, and what it comes to.

    `cards` is how many cards it needs where that is more than there are, else 0.
    """

    text: str
    args: Args
    prediction: Prediction
    cards: int = 0


def changes(matrix: Matrix, model: Model, asked: Deployment, now: Prediction) -> tuple[Change, ...]:
    """Changes that each make it fit, cheapest first; empty if it fits, or if none does."""
    if now.fits or now.missing or not now.has_pool_model or now.offload:
        return ()
    tried = _Trials(matrix, model, asked)
    candidates = list(_candidates(matrix, model, asked, now))
    single = [tried.of(text, args) for text, args in candidates]
    found = [change for change in single if change is not None]
    for (text, args), alone in zip(candidates, single, strict=True):
        both = tried.with_shorter(text, args) if alone is None else None
        found += [both] if both else []
    return tuple(found[:_MOST_CHANGES]) or tuple(tried.with_more_cards())


class _Trials:
    """Predicts what changes come to."""

    def __init__(self, matrix: Matrix, model: Model, asked: Deployment) -> None:
        self.matrix = matrix
        self.model = model
        self.asked = asked

    def predicted(self, args: Args) -> Prediction:
        changed = replace(self.asked, args={**self.asked.args, **args})
        return predict(self.matrix, self.model, changed)

    def of(self, text: str, args: Args) -> Change | None:
        """The change, if it makes it fit."""
        found = self.predicted(args)
        return Change(text, args, found) if found.fits else None

    def with_shorter(self, text: str, args: Args) -> Change | None:
        """The change together with a shorter longest request."""
        if "max_model_len" in args:
            return None
        length = shorter(self.predicted(args))
        if length is None:
            return None
        return self.of(f"{text}, and max_model_len {length}", {**args, "max_model_len": length})

    def with_more_cards(self) -> Iterator[Change]:
        """The least number of such cards on which it fits."""
        card = weakest(self.asked.cards)
        have = len(self.asked.cards)
        for count in _RANKS:
            if card is None or count <= have or (self.model.heads or count) % count:
                continue
            args = {"tensor_parallel_size": count, "pipeline_parallel_size": 1}
            more = replace(self.asked, cards=(card,) * count, args={**self.asked.args, **args})
            found = predict(self.matrix, self.model, more)
            if found.fits:
                yield Change(f"{count} such cards", args, found, cards=count)
                return


def shorter(found: Prediction) -> int | None:
    """The longest request that is sure to fit, in round numbers; None if too short to be of use."""
    plan = found.serving.kv_plan()
    if not found.pool_low or found.pool_low < 0:
        return None
    limit = found.serving.length or found.model.positions
    each = found.pool_low // found.serving.requests
    length = longest_request(found.model, plan, each, limit)
    length -= length % _ROUND
    return length if length >= _LEAST_LENGTH else None


def _candidates(
    matrix: Matrix, model: Model, asked: Deployment, now: Prediction
) -> Iterator[tuple[str, Args]]:
    settings = now.serving
    default = settings.row.utilization if settings.row else 0.0
    if settings.utilization < default:
        yield f"gpu_memory_utilization {default:g}", {"gpu_memory_utilization": default}
    for seqs in _SEQS:
        if seqs < settings.seqs and _less(matrix, model, asked, now, seqs):
            yield f"max_num_seqs {seqs}", {"max_num_seqs": seqs}
            break
    if now.graphs_charged:
        yield "enforce_eager (no CUDA graphs)", {"enforce_eager": True}
    length = shorter(now)
    if length is not None and length < (settings.length or 0):
        yield f"max_model_len {length}", {"max_model_len": length}
    if settings.kv.bytes_per_element >= 2 and _takes_fp8_kv(matrix, asked):
        yield "kv_cache_dtype fp8", {"kv_cache_dtype": "fp8"}
    yield from _more_ranks(model, asked, settings.ranks)
    yield from _fewer_bits(matrix, model, asked, now)


def _less(matrix: Matrix, model: Model, asked: Deployment, now: Prediction, seqs: int) -> bool:
    """True if so few sequences make the activation peak smaller by a tenth at least."""
    changed = replace(asked, args={**asked.args, "max_num_seqs": seqs})
    return predict(matrix, model, changed).activation < now.activation * 0.9


def _takes_fp8_kv(matrix: Matrix, asked: Deployment) -> bool:
    engine = Engine(asked.engine, asked.version, weakest(asked.cards))
    return support(matrix, "kv-dtype", engine, "fp8").support is Support.YES


def _more_ranks(model: Model, asked: Deployment, ranks: int) -> Iterator[tuple[str, Args]]:
    for count in _RANKS:
        if ranks < count <= len(asked.cards) and (model.heads or count) % count == 0:
            args = {"tensor_parallel_size": count, "pipeline_parallel_size": 1}
            yield f"tensor_parallel_size {count}", args


def _fewer_bits(
    matrix: Matrix, model: Model, asked: Deployment, now: Prediction
) -> Iterator[tuple[str, Args]]:
    quantization = now.serving.quantization
    bits = quantization.format.bits if quantization else 16
    for step in ladder(matrix, model, asked):
        if step.bits < bits and step.support is Support.YES and step.format is not None:
            text = f"{step.bits}-bit weights ({step.method})"
            yield text, {"quantization": step.format.key}
