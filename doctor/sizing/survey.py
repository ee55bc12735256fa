"""What fits on a host: models that stand for their size, at each precision."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from doctor.matrix import Matrix
from doctor.sizing.known import known_model
from doctor.sizing.ladder import Step, ladder
from doctor.sizing.model import Model
from doctor.sizing.parallel import parallel
from doctor.sizing.settings import Deployment

# Long enough for a conversation, short enough for any model.
LENGTH = 4096


@dataclass(frozen=True)
class SizeRow:
    """One size class: the model that stands for it, and the ladder on so many ranks."""

    size: str
    model: Model
    tp: int
    pp: int
    steps: tuple[Step, ...]


def survey(matrix: Matrix, asked: Deployment, links: Sequence[str] = ()) -> tuple[SizeRow, ...]:
    """Every size class on all of the cards; a request of 4096 tokens if no length was asked."""
    args = {"max_model_len": LENGTH, **asked.args}
    rows = []
    for reference in matrix.memory.references:
        model = known_model(matrix, reference.repo)
        if model is None:
            continue
        shared = parallel(model, asked.cards, links)
        sizes = {"tensor_parallel_size": shared.tp, "pipeline_parallel_size": shared.pp}
        steps = ladder(matrix, model, replace(asked, args={**sizes, **args}))
        rows.append(SizeRow(reference.size, model, shared.tp, shared.pp, steps))
    return tuple(rows)
