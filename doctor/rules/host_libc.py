"""Is the C and C++ library of the scope new enough for what is installed in it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from doctor.facts import Missing, MissingFact, Version
from doctor.findings import Evidence, Remedy
from doctor.matrix import Matrix
from doctor.matrix.catalogue import Distro
from doctor.rules.decide import missed
from doctor.rules.engine import Case, Fault, NotApplicable, Rule, Severity, rule
from doctor.rules.libc_floors import (
    Floor,
    floor_of_tags,
    floors_of_notes,
    floors_of_program,
    floors_of_software,
)
from doctor.rules.settings import covering
from doctor.rules.software import Software, engine, packages, software

_FROM_SOURCE = re.compile(
    r"\b(?:built|compiled) (?:\S{1,30} ){0,3}from (?:the )?source", re.IGNORECASE
)
_SYMBOL = re.compile(r"GLIBC_\d\.\d{1,3}(?:\.\d{1,3})?")


@rule("HST101", cause="glibc-too-old", severity=Severity.ERROR, gate=True)
def glibc_too_old(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """The C library is older than an installed or wanted build needs.

    What: the glibc of the scope against the symbol versions that its binaries ask for,
        the tags of its wheels, and what is known of the engine's and torch's release.
    Why: a binary made on a newer system asks for symbols that an older glibc does not
        have; it fails with "version `GLIBC_...' not found", often hidden behind an
        import error. A wheel's tag may promise less than its files need.
    How to fix: a container image, a newer distribution, or the last version built for
        this one. A glibc is never replaced in place.
    Silent when: the system is known to use another C library, or nothing tells a floor.
    Sources: symbol versions read from wheels, file names on the index, PEP 600; glibc of
        distributions (rows in the matrix).
    """
    _need_linux(case)
    absent = missed(case, _SYMBOL)
    if absent:
        yield Fault(
            message=f"the C library of this system has no {absent[0]}",
            evidence=(Evidence(f"{absent[0]} was not found", "absent"),),
            remedies=(Remedy("run the engine from its container image"),),
        )
        return
    floors = tuple(_floors(case, matrix))
    if not floors and not any(_known_software(case, matrix)):
        raise NotApplicable("nothing here tells which C library it needs")
    have, at = _glibc(case, matrix)
    for floor in floors:
        if have.older_than(floor.needed) is True:
            yield Fault(
                message=f"{floor.name} needs glibc {floor.needed}, and this system has {have}",
                evidence=(floor.fact, Evidence(f"glibc {have}", at)),
                remedies=_remedies(case, matrix, have),
                sources=floor.sources,
                severity=None if floor.is_certain else Severity.WARNING,
            )
            return
    _need_floors(case, matrix, have)


def _need_floors(case: Case, matrix: Matrix, have: Version) -> None:
    """Raise `MissingFact` for software of unknown floor, where a newer release asks for more.

    Floors only rise: what the next known release needs is enough for an older one too.
    """
    if any(binary.glibc is not None for binary in case.scope.binaries.value or ()):
        return
    for found in _known_software(case, matrix):
        if found.version is None or any(floors_of_software(case, matrix, found)):
            continue
        above = _next_floor(matrix, found)
        if above is not None and have.older_than(above) is True:
            raise MissingFact(f"glibc that {found.label} needs", Missing.NOT_STATED)


def _next_floor(matrix: Matrix, found: Software) -> Version | None:
    """The floor of the oldest release that is newer than this one and states any."""
    if found.version is None:
        return None
    newer = [
        (version, row.min_glibc)
        for row, version in matrix.versions(found.name)
        if row.min_glibc and version.newer_than(found.version) is True
    ]
    return Version(min(newer, key=lambda pair: pair[0].low)[1] or "") if newer else None


def _need_linux(case: Case) -> None:
    system = case.facts.host.os.value
    if system is not None and system.id in ("windows", "macos", "darwin"):
        raise NotApplicable(f"{system.id} has no glibc")
    libc = case.facts.host.libc.value
    if libc is not None and libc.kind != "glibc":
        raise NotApplicable(f"the C library is {libc.kind}")


def _glibc(case: Case, matrix: Matrix) -> tuple[Version, str]:
    """The glibc of the scope, of the host for what runs on it, else that of its distribution."""
    own = case.scope.libc
    if own.value is not None:
        return own.value, own.at
    is_inside = case.scope.kind in ("container", "image")
    libc = case.facts.host.libc
    if libc.value is not None and libc.value.version is not None and not is_inside:
        return libc.value.version, libc.at
    row = None if is_inside else distribution(case, matrix)
    if row is not None and row.glibc:
        return Version(row.glibc), f"{row.id}, {row.source[0]}"
    return own.known("glibc"), ""


def distribution(case: Case, matrix: Matrix) -> Distro | None:
    """What the matrix knows of the host's distribution."""
    system = case.facts.host.os.value
    if system is None:
        return None
    parts = system.version.split(".")
    tries = [".".join(parts[:n]) for n in range(len(parts), 0, -1)]
    return next(filter(None, (matrix.distro(system.id, text) for text in tries)), None)


def _floors(case: Case, matrix: Matrix) -> Iterator[Floor]:
    """What asks for how new a glibc: symbols in binaries, else wheel tags and releases.

    What is installed was let in by its tags, so there only its symbols count.
    """
    measured = [(b.glibc, b) for b in case.scope.binaries.value or () if b.glibc is not None]
    if measured:
        spare = _spare_libraries(case, matrix)
        rows = [(glibc, b, _stem(b.path) not in spare) for glibc, b in measured]
        # Of what everything needs first; a library that the engine does without comes last.
        for needed, binary, core in sorted(rows, key=lambda r: (r[2], r[0].low), reverse=True):
            fact = Evidence(f"{binary.path} asks for GLIBC_{needed}", binary.path)
            yield Floor(binary.package or binary.path, needed, fact, is_certain=core)
        return
    for package in case.scope.packages.value or ():
        floor = floor_of_tags(package.tags)
        if floor is not None:
            fact = Evidence(f"{package.name} is tagged {package.tags[0]}", package.location)
            yield Floor(f"{package.name} {package.version or ''}".strip(), floor, fact)
    main = tuple(_known_software(case, matrix))
    for found in main:
        if found.name != "torch" and _is_from_source(case):
            continue  # its own wheel is not what runs
        yield from floors_of_software(case, matrix, found)
        yield from floors_of_program(case, matrix, found)
    yield from _of_others(case, matrix, {found.name for found in main})
    yield from floors_of_notes(case, matrix)


def _is_from_source(case: Case) -> bool:
    words = (case.workload.building.value or "") if case.workload is not None else ""
    return _FROM_SOURCE.search(words) is not None


def _of_others(case: Case, matrix: Matrix, main: set[str]) -> Iterator[Floor]:
    """What stands beside the engine may have been compiled here, or be left unused."""
    for package in packages(case):
        name = matrix.canonical(package.name)
        if name is None:
            plain = Software(package.name, package.version, at=case.scope.packages.at)
            yield from floors_of_program(case, matrix, plain)
        elif name not in main and package.version is not None:
            found = software(matrix, name, package.version, case.scope.packages.at)
            floors = () if found.beyond else floors_of_software(case, matrix, found)
            yield from (replace(floor, is_certain=False) for floor in floors)


def _stem(path: str) -> str:
    return path.rpartition("/")[2].partition(".")[0]


def _spare_libraries(case: Case, matrix: Matrix) -> frozenset[str]:
    """Libraries of the engine without which it runs most models, by the matrix."""
    found = engine_or_none(case, matrix)
    claims = covering(matrix, found, "libc") if found is not None else []
    listed = (name for match in claims for name in match.claim.data.get("spare", ()))
    return frozenset(map(str, listed))


def _known_software(case: Case, matrix: Matrix) -> Iterator[Software]:
    torch = case.scope.package("torch")
    if torch is not None and torch.version is not None:
        yield software(matrix, "torch", torch.version, case.scope.packages.at)
    try:
        found = engine(case, matrix)
    except NotApplicable:
        return
    if found.name != "torch":
        yield found


def _remedies(case: Case, matrix: Matrix, have: Version) -> tuple[Remedy, ...]:
    found = engine_or_none(case, matrix)
    domain = matrix.engine(found.name) if found else None
    fitting = next(
        (
            row
            for row in (domain.releases if domain else ())
            if row.min_glibc and not row.prerelease
            if have.at_least(Version(row.min_glibc)) is True
        ),
        None,
    )
    container = Remedy("run the engine from its container image, which brings its own C library")
    if fitting is None or found is None:
        return (container,)
    older = Remedy(
        f"or install {found.name} {fitting.version}, the newest that is built for glibc "
        f"{fitting.min_glibc}",
        (f"pip install '{found.name}=={fitting.version}'",),
        role="python_env",
    )
    return (container, older)


def engine_or_none(case: Case, matrix: Matrix) -> Software | None:
    """The engine of the case, or None."""
    try:
        return engine(case, matrix)
    except NotApplicable:
        return None


RULES: tuple[Rule, ...] = (glibc_too_old,)
