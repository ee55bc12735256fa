"""Read the JSON of an earlier run, to compare with it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from doctor.errors import UsageError
from doctor.named_files import read_named
from doctor.smoke.bench.ask import Load
from doctor.smoke.bench.figures import Series
from doctor.smoke.values import finite

SCHEMA = "doctor/bench/v1"
_LIMIT = 64 << 20
_HINT = "doctor bench URL -o json=FILE writes one"


@dataclass(frozen=True)
class Saved:
    """An earlier run: what it asked for, and its single values by load."""

    name: str
    model: str
    lengths: str
    digest: str
    context: int | None
    forced: bool
    series: Mapping[Load, Series]


def read_baseline(path: Path) -> Saved:
    """Read one. Raises UsageError for a file that is none."""
    data = _json(path)
    if not isinstance(data, dict) or data.get("schema") != SCHEMA:
        raise UsageError(f"{path} holds no result of doctor bench", _HINT)
    lengths = data.get("lengths")
    asked = lengths if isinstance(lengths, dict) else {}
    rows = data.get("loads")
    series = dict(filter(None, (_series(row) for row in (rows if isinstance(rows, list) else ()))))
    if not series:
        raise UsageError(f"{path} holds no measured load", _HINT)
    context = asked.get("context")
    return Saved(
        name=path.name,
        model=str(data.get("model", "")),
        lengths=str(asked.get("name", "")),
        digest=str(asked.get("digest", "")),
        context=context if isinstance(context, int) else None,
        forced=asked.get("forced") is not False,
        series=series,
    )


def _json(path: Path) -> Any:
    try:
        raw = read_named(path, _LIMIT + 1)
    except OSError as fault:
        raise UsageError(f"cannot read {path}: {fault.strerror}", _HINT) from None
    try:
        return json.loads(raw) if len(raw) <= _LIMIT else None
    except (ValueError, RecursionError):
        return None


def _series(row: Any) -> tuple[Load, Series] | None:
    """A load with its values; None for what is none."""
    if not isinstance(row, dict) or not isinstance(row.get("series"), dict):
        return None
    users, rate = _number(row.get("users")), _number(row.get("rate"))
    load = Load(users=int(users or 0), rate=rate or 0.0)
    if load.value <= 0:
        return None
    found = row["series"]
    return load, Series(**{field.name: _values(found.get(field.name)) for field in fields(Series)})


def _values(found: Any) -> tuple[float, ...]:
    numbers = (_number(value) for value in (found if isinstance(found, list) else ()))
    return tuple(number for number in numbers if number is not None)


def _number(value: Any) -> float | None:
    """A finite number that is not negative; None for anything else."""
    number = finite(value)
    return number if number is not None and number >= 0 else None
