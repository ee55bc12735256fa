"""What was there before a driver was changed, as a goal: the way back. Pure."""

from __future__ import annotations

from collections import Counter

import msgspec

from doctor.provision.driver.sets import (
    DriverSet,
    DriverState,
    Package,
    branch_of,
    upstream,
)
from doctor.provision.goal import Goal, ManagedFile, parse_goal
from doctor.provision.survey import State


def driver_before(goal: Goal, state: State) -> Goal:
    """The packages, holds and files that were there, of all that the goal and the last one name."""
    there = state.driver
    if goal.driver is None or there is None:
        return goal
    applied = parse_goal(state.applied, f"{goal.home}/applied.json") if state.applied else None
    was = _set(goal.driver, applied.driver if applied else None, there)
    files = tuple(
        ManagedFile(path, file.text, file.mode)
        for path, file in sorted(state.files.items())
        if file is not None and file.text is not None and not path.startswith(f"{goal.home}/")
    )
    return msgspec.structs.replace(goal, driver=was, files=files, version=was.version)


def _set(goal: DriverSet, applied: DriverSet | None, there: DriverState) -> DriverSet:
    named = set(goal.all_names)
    named |= {p.name for p in applied.packages} if applied else set()
    found = tuple(goal.with_hash(p) for p in there.packages if p.name in named)
    # What the driver only brought along (a library that became newer) is not made older again.
    brought = {p.name for p in goal.needs}
    was = tuple(p for p in found if p.name not in brought)
    version = _most(was)
    return DriverSet(
        scheme=applied.scheme if applied else "",
        branch=applied.branch if applied else 0,
        modules=applied.modules if applied else goal.modules,
        version=version,
        packages=was,
        needs=tuple(p for p in found if p.name in brought),
        absent=tuple(sorted(named - {p.name for p in found} - set(there.debris))),
        holds=tuple(sorted(set(there.holds) & named)),
        builds=bool(version) and version in there.modules.values(),
        units=applied.units if applied else (),
        replaced=goal.packages,
        patterns=goal.patterns,
        purges=True,
    )


def _most(packages: tuple[Package, ...]) -> str:
    """The driver's own version: that of most packages that carry one; "" if none does."""
    found = Counter(upstream(p.version) for p in packages if 100 <= branch_of(p.version) < 10_000)
    return max(found, key=lambda version: (found[version], version), default="")
