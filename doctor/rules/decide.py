"""Several checks that answer one question: a fault found by one beats a fact missing in another."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from doctor.facts import MissingFact
from doctor.rules.engine import Case, Fault, NotApplicable

Check = Callable[[], Iterable[Fault]]


def each(checks: Iterable[Check]) -> Iterator[Fault]:
    """Run every check; yield what they find.

    Only if none finds a fault is the first missing fact raised, and `NotApplicable`
    only if every check said so.
    """
    faults: list[Fault] = []
    unsure: list[MissingFact] = []
    idle: list[NotApplicable] = []
    ran = 0
    for check in checks:
        ran += 1
        try:
            faults += check()
        except MissingFact as fact:
            unsure.append(fact)
        except NotApplicable as why:
            idle.append(why)
    yield from faults
    if not faults and unsure:
        raise unsure[0]
    if not faults and idle and len(idle) == ran:
        raise idle[0]


def is_absent(case: Case, name: str) -> bool:
    """Tell whether a thing was looked for, in the scope or on the host, and is not there."""
    stated = (*(case.scope.absent.value or ()), *(case.facts.host.absent.value or ()))
    return any(name in entry for entry in stated)
