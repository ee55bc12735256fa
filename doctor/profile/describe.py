"""What there is to say of a profile beyond its own keys: does it agree with the matrix."""

from __future__ import annotations

from collections.abc import Iterator

from doctor.facts import ComputeCapability, Specifier
from doctor.matrix import Matrix
from doctor.profile.schema import Profile


def doubts(profile: Profile, matrix: Matrix) -> tuple[str, ...]:
    """What in a profile the matrix knows nothing of, or speaks against; empty if all is well."""
    return tuple(_doubts(profile, matrix))


def _doubts(profile: Profile, matrix: Matrix) -> Iterator[str]:
    name = profile.engine.name
    if profile.is_driver_alone:
        return
    domain = matrix.canonical(name)
    if domain is None and not any(row.engine == name for row in matrix.launches):
        yield f"engine.name: nothing is known of {name}"
        return
    yield from _of_versions(profile, matrix, domain or name)
    yield from _of_cards(profile, matrix, domain or name)


def _of_versions(profile: Profile, matrix: Matrix, engine: str) -> Iterator[str]:
    spec = Specifier.parse(profile.engine.version)
    if spec is None:
        yield f"engine.version: {profile.engine.version!r} is not a specifier"
        return
    known = matrix.versions(engine)
    admitted = [row for row, version in known if spec.admits(version) is True]
    if known and not admitted:
        yield f"engine.version: no release that is known satisfies {profile.engine.version}"
    python = profile.install.python
    wanted = Specifier.parse(f"=={python}.*") if python else None
    stated = [Specifier.parse(row.requires_python) for row in admitted if row.requires_python]
    if wanted and stated and not any(s and _admits_minor(s, python or "") for s in stated):
        yield f"install.python: no release in that range runs on Python {python}"


def _admits_minor(spec: Specifier, python: str) -> bool:
    from doctor.facts import Version

    return spec.admits(Version(python)) is True


def _of_cards(profile: Profile, matrix: Matrix, engine: str) -> Iterator[str]:
    stated = profile.accelerator.min_capability
    spec = Specifier.parse(profile.engine.version)
    floors = [
        ComputeCapability.parse(row.min_capability)
        for row, version in matrix.versions(engine)
        if row.min_capability and spec is not None and spec.admits(version) is True
    ]
    lowest = min(floors, key=lambda c: (c.major, c.minor), default=None)
    if stated and lowest is not None and ComputeCapability.parse(stated) < lowest:
        yield f"accelerator.min_capability: releases in that range begin at {lowest}, not {stated}"
