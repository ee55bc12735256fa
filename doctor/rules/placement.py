"""How the engine of a case places weights, and the margins of arithmetic: rows of the matrix."""

from __future__ import annotations

from itertools import chain

from doctor.matrix import Matrix
from doctor.matrix.memory import Placement
from doctor.rules.engine import Case, NotApplicable
from doctor.rules.software import engine_name


def placement(case: Case, matrix: Matrix) -> Placement:
    """The row of the engine; `NotApplicable` where none says how it places weights."""
    name = engine_name(case, matrix)
    rows = matrix.memory.placements
    beside = (row for row in rows if row.packages and case.scope.package(*row.packages))
    named = (row for row in rows if row.engine == name)
    found = next(chain(beside, named), None)
    if found is None:
        raise NotApplicable(f"nothing is known of where {name} puts weights")
    return found


def margin(matrix: Matrix, key: str) -> float:
    """The margin of that name; the matrix has them all."""
    return next(row.value for row in matrix.memory.margins if row.key == key)
