"""What a load test asks for and judges by: rows of the domain `serving`."""

from __future__ import annotations

from msgspec import Struct

from doctor.matrix.model import Row


class LengthRow(Row, frozen=True, kw_only=True):
    """Lengths of real requests: `pairs` of tokens in the prompt and in the answer."""

    key: str
    what: str
    pairs: tuple[tuple[int, int], ...]


class TargetRow(Row, frozen=True, kw_only=True):
    """What a running server should reach. `unit` is "s" or "share" (0 to 1).

    `low` and `high` bound the good values, both inclusive; `severity` says whether to miss
    it is an error or a warning; `remedy` what to do then.
    """

    key: str
    what: str
    unit: str
    severity: str
    remedy: str
    low: float | None = None
    high: float | None = None


class ServingDomain(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Lengths of requests, and targets."""

    as_of: str
    lengths: tuple[LengthRow, ...] = ()
    targets: tuple[TargetRow, ...] = ()
