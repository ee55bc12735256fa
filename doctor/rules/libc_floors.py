"""How new a C library a release of the matrix needs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from doctor.facts import Version
from doctor.findings import Evidence
from doctor.matrix import ClaimMatch, Matrix
from doctor.matrix.model import Release
from doctor.rules.engine import Case
from doctor.rules.settings import covering, holds, settings
from doctor.rules.software import Software, torch_version

_SIGNS = re.compile(r"[-_. ]")
_BUILT_ON = re.compile(
    r"\b(?:built|compiled|made|builds?)\b[^.;,\n]{0,25}\b(?:on|for|under|in|against)\s+(?:an?\s)?"
    r"(Ubuntu|Debian|Fedora|Rocky|RHEL|CentOS|AlmaLinux)(?:\s[A-Z][\w]{0,12})?[\s-](\d{1,2}(?:\.\d{1,2})?)",
    re.IGNORECASE,
)
_MANYLINUX = re.compile(r"manylinux_(\d{1,2})_(\d{1,3})_")
_WHEEL = re.compile(r"[\w.+-]{1,160}?-(?:manylinux\w{1,40}\.?){1,6}\.?whl\b")


@dataclass(frozen=True)
class Floor:
    """How new a glibc something needs; not certain if its version is only guessed."""

    name: str
    needed: Version
    fact: Evidence
    sources: tuple[str, ...] = ()
    is_certain: bool = True


def floors_of_software(case: Case, matrix: Matrix, found: Software) -> Iterator[Floor]:
    """The floor of a release: symbols measured in its files before the tag on them.

    Where the version is not known, that of the newest one: no later one will be lower.
    """
    if found.name != "torch" and _is_for_rocm(case):
        return  # wheels of the index are for CUDA: this one was compiled, or is AMD's
    if found.version is None:
        domain = matrix.engine(found.name)
        newest = next((row for row in (domain.releases if domain else ()) if row.min_glibc), None)
        if newest is not None:
            floor = _row_floor(found, newest, is_certain=False)
            yield replace(floor, name=f"the newest {found.name} ({newest.version})")
        else:
            yield from _of_newest_claim(case, matrix, found)
        return
    if found.beyond:
        raise found.unknown()
    setting = settings(case, matrix)[0]
    for match in _symbols_first(covering(matrix, found, "libc")):
        value, state = Version.maybe(match.claim.value), holds(match.claim, setting)
        if value is not None and state is not False and not match.extrapolated:
            fact = Evidence(f"{found.label} is built for glibc {value}", found.at)
            sure = state is True and not match.claim.data.get("spare")
            yield Floor(found.label, value, fact, tuple(match.claim.source), sure)
            return
    rows = _for_python(case, found.rows)
    known = [row for row in rows if row.min_glibc]
    if known and len(known) == len(rows):
        lowest = min(known, key=lambda row: Version(row.min_glibc or "").low)
        yield _row_floor(found, lowest, is_certain=found.version.is_exact)


def _is_for_rocm(case: Case) -> bool:
    torch = torch_version(case)
    return torch is not None and torch.local.startswith("rocm")


def _of_newest_claim(case: Case, matrix: Matrix, found: Software) -> Iterator[Floor]:
    """The floor that is stated for the newest releases, of an engine whose rows tell none."""
    setting = settings(case, matrix)[0]
    for match in matrix.claims(found.name, "libc"):
        claim, value = match.claim, Version.maybe(match.claim.value)
        is_last = value is not None and bool(claim.since) and not claim.until
        if value is not None and is_last and holds(claim, setting) is not False:
            fact = Evidence(f"{found.name} {claim.since} and newer need glibc {value}", found.at)
            name = f"the newest {found.name}"
            yield Floor(name, value, fact, tuple(claim.source), is_certain=False)


def _for_python(case: Case, rows: tuple[Release, ...]) -> tuple[Release, ...]:
    """Of several releases those that have a wheel for this Python; all if none lists it."""
    python = case.scope.python.value
    if python is None or len(rows) < 2:
        return rows
    tag = f"cp{python.version.major}{python.version.minor}"
    return tuple(row for row in rows if tag in row.pythons) or rows


def _symbols_first(matches: list[ClaimMatch]) -> list[ClaimMatch]:
    return sorted(matches, key=lambda match: match.claim.key != "symbols")


def _row_floor(found: Software, row: Release, is_certain: bool) -> Floor:
    needed = Version(row.min_glibc or "")
    fact = Evidence(f"{found.name} {row.version} is built for glibc {needed}", found.at)
    return Floor(f"{found.name} {row.version}", needed, fact, tuple(row.source), is_certain)


def floors_of_program(case: Case, matrix: Matrix, found: Software) -> Iterator[Floor]:
    """The floor of a program that comes ready made and has no rows of its own."""
    for match in of_program(matrix, found.name, "libc-program"):
        if holds(match.claim, settings(case, matrix)[0]) is not False:
            fact = Evidence(f"{found.label} is built for glibc {match.claim.value}", found.at)
            needed = Version(match.claim.value)
            yield Floor(found.label, needed, fact, tuple(match.claim.source), is_certain=False)


def floor_of_tags(tags: Iterable[str]) -> Version | None:
    """The lowest floor of platform tags: one that fits is enough."""
    found = [match for tag in tags for match in _MANYLINUX.finditer(f"{tag}_")]
    floors = [Version(f"{match[1]}.{match[2]}") for match in found]
    return min(floors, key=lambda v: v.low, default=None)


def is_built_elsewhere(case: Case) -> bool:
    """Tell whether a note says on which system the thing was built: no release of the project."""
    return any(_BUILT_ON.search(note) for note in case.facts.notes)


def floors_of_notes(case: Case, matrix: Matrix) -> Iterator[Floor]:
    """What notes tell: the system on which something was built, the wheel that was tried."""
    for note in case.facts.notes:
        for match in _BUILT_ON.finditer(note):
            row = matrix.distro(match[1].lower(), match[2])
            if row is not None and row.glibc:
                name = f"what was built on {match[1]} {match[2]}"
                yield Floor(name, Version(row.glibc), Evidence(match[0], "notes"), is_certain=False)
    yield from _floor_of_wheels(case)


def _floor_of_wheels(case: Case) -> Iterator[Floor]:
    """The lowest floor of the wheels that notes name; none where one of them has no floor."""
    named = [match[0] for note in case.facts.notes for match in _WHEEL.finditer(note)]
    floors = {name: floor_of_tags([name]) for name in named}
    known = {name: floor for name, floor in floors.items() if floor is not None}
    if known and len(known) == len(floors):
        name, floor = min(known.items(), key=lambda pair: pair[1].low)
        source = ("https://peps.python.org/pep-0600/",)
        yield Floor(name, floor, Evidence(name, "notes"), source, is_certain=False)


def of_program(matrix: Matrix, name: str, kind: str) -> list[ClaimMatch]:
    """Claims of programs without a domain: people write their names with and without signs."""
    plain = _SIGNS.sub("", name.lower())
    return [m for m in matrix.claims("cpu", kind) if _SIGNS.sub("", m.claim.key) == plain]
