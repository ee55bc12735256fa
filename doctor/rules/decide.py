"""Several checks that answer one question: a fault found by one beats a fact missing in another."""

from __future__ import annotations

import re
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


def need_contents(case: Case) -> None:
    """Something to judge inside the target; `NotApplicable` for a host of which only that is known.

    Whether a machine is sound can be told without an engine; what an engine needs cannot.
    """
    scope = case.scope
    readings = (scope.packages, scope.torch, scope.binaries)
    if case.workload is None and not any(reading.is_known for reading in readings):
        raise NotApplicable("no engine or framework in this target")


def stated_absent(case: Case) -> tuple[str, ...]:
    """Names of things that were looked for, in the scope or on the host, and are not there."""
    stated = (*(case.scope.absent.value or ()), *(case.facts.host.absent.value or ()))
    return tuple(dict.fromkeys(entry.strip() for entry in stated if entry.strip()))


def missed(case: Case, words: re.Pattern[str]) -> tuple[str, ...]:
    """Things of this kind that a person looked for and did not find; the whole name must fit.

    What doctor looks for by itself it finds missing on healthy hosts too.
    """
    readings = (case.scope.absent, case.facts.host.absent)
    stated = [entry for r in readings if r.at == "absent" for entry in r.value or ()]
    return tuple(dict.fromkeys(e.strip() for e in stated if words.fullmatch(e.strip())))


def is_absent(case: Case, name: str) -> bool:
    """Tell whether a thing was looked for, in the scope or on the host, and is not there."""
    return any(name in entry for entry in stated_absent(case))
