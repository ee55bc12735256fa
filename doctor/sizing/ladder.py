"""The precision ladder: 16 bit if it fits, else 8, else 4, as far as engine and card allow."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from doctor.matrix import Matrix
from doctor.matrix.memory import WeightFormat
from doctor.sizing.fit import predict
from doctor.sizing.model import Model
from doctor.sizing.pools import split_row, weakest
from doctor.sizing.prediction import Prediction
from doctor.sizing.settings import Deployment
from doctor.sizing.support import Answer, Engine, Support, support

STEPS = (16, 8, 4)
_HALF = 16


@dataclass(frozen=True)
class Step:
    """One precision: the format that engine and card take, and what it would come to.

    `format` is None where no format of that precision is known to be taken; `why` tells.
    """

    bits: int
    format: WeightFormat | None
    method: str
    support: Support
    why: str
    prediction: Prediction | None


def ladder(matrix: Matrix, model: Model, asked: Deployment) -> tuple[Step, ...]:
    """All steps, from 16 bit down."""
    return tuple(_step(matrix, model, asked, bits) for bits in STEPS)


def first_fitting(steps: tuple[Step, ...]) -> Step | None:
    """The highest precision that fits and is known to be taken."""
    return next(
        (
            step
            for step in steps
            if step.support is Support.YES and step.prediction and step.prediction.fits
        ),
        None,
    )


def _step(matrix: Matrix, model: Model, asked: Deployment, bits: int) -> Step:
    if bits == _HALF:
        form = next(row for row in matrix.memory.weight_formats if row.step == _HALF)
        found = predict(matrix, model, with_format(asked, form))
        return Step(bits, form, form.key, Support.YES, "", found)
    answers = list(_answers(matrix, model, asked, bits))
    taken = next((pair for pair in answers if pair[1].support is Support.YES), None)
    if taken is not None:
        form, answer = taken
        found = predict(matrix, model, with_format(asked, form))
        return Step(bits, form, answer.method, Support.YES, "", found)
    refused = next((a for _, a in answers if a.support is Support.NO), None)
    if refused is not None:
        return Step(bits, None, refused.method, Support.NO, refused.text, None)
    why = f"nothing known of {bits}-bit formats in {asked.engine} on this card"
    return Step(bits, None, "", Support.UNKNOWN, why, None)


def _answers(
    matrix: Matrix, model: Model, asked: Deployment, bits: int
) -> Iterator[tuple[WeightFormat, Answer]]:
    """Every method of that precision, best first, with what the matrix says of it."""
    engine = Engine(asked.engine, asked.version, weakest(asked.cards))
    for form in _formats(matrix, model, asked, bits):
        for method in form.methods or (form.key,):
            yield form, support(matrix, "quantization", engine, method)


def _formats(matrix: Matrix, model: Model, asked: Deployment, bits: int) -> Iterator[WeightFormat]:
    """Formats of that precision, that of the checkpoint itself first."""
    own = model.quantization
    if own is not None and own.format.bits == bits:
        yield own.format
    whole_file = split_row(matrix.memory, asked.engine) is not None
    for form in matrix.memory.weight_formats:
        if form.step == bits and (form.part == "all") is whole_file:
            yield form


def with_format(asked: Deployment, form: WeightFormat) -> Deployment:
    """The same deployment with weights of another format."""
    return replace(asked, args={**asked.args, "quantization": form.key})
