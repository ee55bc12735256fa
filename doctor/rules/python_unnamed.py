"""Pythons of which few releases were made: new ones, and ones that are not finished."""

from __future__ import annotations

from collections.abc import Iterator

from doctor.facts import Version
from doctor.findings import Evidence, Remedy
from doctor.matrix import Matrix
from doctor.matrix.model import Release
from doctor.rules.engine import Case, Fault, NotApplicable, Rule, Severity, rule
from doctor.rules.python import WHEELS_ONLY, allows, need_installing
from doctor.rules.software import Software, engine, lacks_wheel, software

_FEW = 3  # a third of the listed releases


@rule("PYE106", cause="python-unsupported", severity=Severity.WARNING)
def python_newer_than_most_releases(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """No version is stated, and only the newest releases of the engine take this Python.

    What: the Python against each listed release: its range, its wheels, and the wheels of
        what it pins and what comes as wheels alone.
    Why: a new Python is taken up late: until then pip builds an old release from source or
        finds no distribution that fits.
    How to fix: the release that the finding names or newer, or an older Python.
    Silent when: a version is stated, or more than a third of the listed releases take it.
    Sources: METADATA and file names of the package index (rows in the matrix).
    """
    found = engine(case, matrix)
    need_installing(case, found)
    if found.version is not None or not found.rows:
        raise NotApplicable("a version is stated, or no releases are listed")
    python = case.scope.python.known("python").version
    taking = [row for row in found.rows if _takes(matrix, row, python)]
    newest_first = [row.version for row in found.rows[: len(taking)]]
    if len(taking) * _FEW > len(found.rows) or [r.version for r in taking] != newest_first:
        return
    since = f"begins with {taking[-1].version}" if taking else "has not come"
    yield Fault(
        f"most releases of {found.name} do not take Python {python}: what takes it {since}",
        evidence=(Evidence(f"Python {python}", case.scope.python.at), _oldest(found)),
        remedies=(Remedy(f"an older Python, or {found.name} from that release on"),),
        sources=found.rows[0].source,
    )


def _oldest(found: Software) -> Evidence:
    return Evidence(
        f"{len(found.rows)} listed releases, from {found.rows[-1].version} on", "matrix"
    )


def _takes(matrix: Matrix, row: Release, python: Version) -> bool:
    minor = ".".join(map(str, python.release[:2]))
    if allows(row.requires_python, python) is False or lacks_wheel(row, minor):
        return False
    exact = ((name, row.pins.get(name, "")) for name in WHEELS_ONLY)
    pinned = ((name, Version(pin[2:])) for name, pin in exact if pin.startswith("=="))
    parts = (part for name, version in pinned for part in software(matrix, name, version).rows)
    return not any(lacks_wheel(part, minor) for part in parts)


@rule("PYE110", cause="python-unsupported", severity=Severity.WARNING)
def python_not_final(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """The Python is an alpha or a beta.

    What: the version of the Python that runs or installs the packages.
    Why: wheels are built against the final release. Until the first candidate the binary
        interface may change, so compiled packages fail to load, or none is found.
    How to fix: an environment with a final release of Python.
    Silent when: the Python is a final release, or a candidate: its interface is fixed, and
        Ubuntu 22.04 ships one as its Python 3.11.
    Sources: PEP 387 and the release schedules of Python (PEP 664 and its like).
    """
    python = case.scope.python.known("python").version
    if not python.is_prerelease or "rc" in python.public:
        return
    yield Fault(
        f"Python {python} is not a final release, for which wheels are built",
        evidence=(Evidence(f"Python {python}", case.scope.python.at),),
        remedies=(Remedy("make an environment with a final release of Python"),),
        sources=("https://peps.python.org/pep-0387/",),
    )


RULES: tuple[Rule, ...] = (python_newer_than_most_releases, python_not_final)
