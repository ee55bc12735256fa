"""The state of a matrix, domain by domain: faults, age, and what is not known yet."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from typing import Any

from doctor.errors import MatrixError
from doctor.facts import Version
from doctor.matrix.domains import IDENTITY
from doctor.matrix.model import EngineDomain
from doctor.matrix.query import Matrix
from doctor.matrix.verify import verify


@dataclass(frozen=True)
class DomainState:
    """One domain: rows, the day it is of, how old that is, and gaps by what is missing."""

    name: str
    rows: int
    as_of: str
    age_days: int
    gaps: tuple[tuple[str, int], ...] = ()
    is_old: bool = False


@dataclass(frozen=True)
class Verification:
    """All domains and all faults."""

    domains: tuple[DomainState, ...]
    faults: tuple[str, ...]

    @property
    def oldest_days(self) -> int:
        """The age of the oldest domain."""
        return max((row.age_days for row in self.domains), default=0)

    @property
    def is_old(self) -> bool:
        """True if a domain is older than was allowed."""
        return any(row.is_old for row in self.domains)


def verification(matrix: Matrix, today: date, max_age_days: int | None = None) -> Verification:
    """Check every row, and say how old each domain is. Only `max_age_days` makes age a matter."""
    names = (*matrix.other_names, *matrix.engine_names)
    states = (_state(matrix, name, today, max_age_days) for name in names)
    return Verification(tuple(filter(None, states)), verify(matrix))


def _state(matrix: Matrix, name: str, today: date, most: int | None) -> DomainState | None:
    """The state of a domain, or None for one that cannot be read: that is a fault of its own."""
    try:
        domain: Any = matrix.domain(name)
    except MatrixError:
        return None
    lists = [field for field in domain.__struct_fields__ if field in IDENTITY]
    as_of = getattr(domain, "as_of", "")
    age = _age(as_of, today)
    gaps = Counter(_gaps(domain)) if isinstance(domain, EngineDomain) else Counter[str]()
    return DomainState(
        name=name,
        rows=sum(len(getattr(domain, field)) for field in lists),
        as_of=as_of,
        age_days=age,
        gaps=tuple(gaps.most_common()),
        is_old=most is not None and age > most,
    )


def _age(as_of: str, today: date) -> int:
    try:
        return max((today - date.fromisoformat(as_of)).days, 0)
    except ValueError:
        return 0


def _gaps(domain: EngineDomain) -> Iterator[str]:
    """What its newest final releases do not say, and claims that end before them."""
    finals = [row for row in domain.releases if not row.prerelease][:3]
    has_pins = any(row.pins for row in domain.releases)
    for row in finals:
        if has_pins and not row.pins:
            yield "newest releases without pins"
    newest = Version(finals[0].version) if finals else None
    for claim in domain.claims:
        checked = Version.maybe(claim.verified_to)
        if newest is None or checked is None or claim.until:
            continue
        if checked.older_than(newest) is True:
            yield "open claims not verified to the newest release"
