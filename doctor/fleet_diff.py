"""What has changed between two snapshots of a fleet: hosts, drivers, systems, engines, cards."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from doctor.errors import UsageError
from doctor.facts import Facts, Reading
from doctor.fleets import files_of
from doctor.matrix import Matrix, load_matrix
from doctor.report.fleet_diff import FleetChange, FleetDiff


def compare_fleets(before: str, after: str) -> FleetDiff:
    """Compare two folders as `check --inventory --keep` writes them. Raises UsageError."""
    matrix = load_matrix()
    first, second = _states(before, matrix), _states(after, matrix)
    found: dict[tuple[str, str, str], list[str]] = defaultdict(list)
    both = [name for name in first if name in second]
    same = 0
    for name in both:
        changed = list(_changes(first[name], second[name]))
        same += not changed
        for change in changed:
            found[change].append(name)
    ordered = sorted(found.items(), key=lambda pair: (-len(pair[1]), pair[0]))
    changes = tuple(FleetChange(*change, tuple(hosts)) for change, hosts in ordered)
    added = tuple(name for name in second if name not in first)
    removed = tuple(name for name in first if name not in second)
    return FleetDiff(before, after, added, removed, changes, same)


def _states(folder: str, matrix: Matrix) -> dict[str, dict[str, str]]:
    """What is compared of every host; raises UsageError for a file without facts."""
    from doctor.intake.detect import parse_input, read_text

    found = {}
    for name, path in files_of(Path(folder)):
        try:
            facts = parse_input(read_text(path), str(path)).facts
        except UsageError as fault:
            raise UsageError(f"{path}: no facts in it ({fault})", "leave it out") from None
        found[name] = dict(_state(facts, matrix))
    return found


def _changes(before: dict[str, str], after: dict[str, str]) -> Iterator[tuple[str, str, str]]:
    for what in dict.fromkeys((*before, *after)):
        pair = before.get(what, ""), after.get(what, "")
        if pair[0] != pair[1]:
            yield what, *pair


def _state(facts: Facts, matrix: Matrix) -> Iterator[tuple[str, str]]:
    """The versions and parts of a host that decide what runs on it."""
    system, nvidia, ascend = facts.host.os.value, facts.nvidia, facts.ascend
    yield "system", f"{system.id} {system.version}".strip() if system else ""
    single: tuple[tuple[str, Reading[Any]], ...] = (
        ("kernel", facts.host.kernel),
        ("driver", nvidia.driver),
        ("driver on disk", nvidia.module_on_disk),
        ("fabric manager", nvidia.fabric_manager.version),
        ("container toolkit", nvidia.container_toolkit),
        ("NPU driver", ascend.driver),
        ("NPU firmware", ascend.firmware),
        ("CANN", ascend.cann),
        ("ROCm", facts.rocm.version),
    )
    for name, reading in single:
        yield name, str(reading.value) if reading.is_known else ""
    cards = Counter(d.name.value or d.vendor for d in facts.devices.value or ())
    yield "devices", ", ".join(f"{count} x {card}" for card, count in sorted(cards.items()))
    for scope in facts.scopes:
        for package in scope.packages.value or ():
            if package.name in matrix.engine_packages:
                yield f"{package.name} in {scope.id}", str(package.version or "")
