"""Is an engine's package in truth a source tree on its way to the next release."""

from __future__ import annotations

from doctor.facts import Package
from doctor.matrix import Matrix
from doctor.matrix.model import Release
from doctor.rules.engine import Case
from doctor.rules.software import Software, admits

_ENOUGH = 2


def next_release(case: Case, matrix: Matrix, found: Software) -> Release | None:
    """The nearest later release whose pins are met where those of this version are not.

    A tree between two releases still calls itself by the last tag, and asks for what the
    next one will pin. Two packages that fit it, and none that does not, are no chance.
    """
    domain = matrix.engine(found.name)
    if domain is None or not found.is_settled or found.beyond or found.version is None:
        return None
    unmet = _unmet(case, found.rows[0])
    if len(unmet) < _ENOUGH:
        return None
    later = [(row, version) for row, version in matrix.versions(domain.name)]
    ahead = sorted((p for p in later if p[1].newer_than(found.version)), key=lambda p: p[1].low)
    return next((row for row, _ in ahead if _meets(row, unmet)), None)


def _unmet(case: Case, row: Release) -> list[Package]:
    """Installed packages that are not what the release pins exactly."""
    return [
        package
        for package in case.scope.packages.value or ()
        if package.version is not None
        and row.pins.get(package.name, "").startswith("==")
        and admits(row.pins[package.name], package.version) is False
    ]


def _meets(row: Release, packages: list[Package]) -> bool:
    pins = ((row.pins.get(p.name, ""), p.version) for p in packages)
    return all(pin and version and admits(pin, version) is True for pin, version in pins)
