"""What the matrix says is different between two drivers, or two versions of an engine. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from doctor.errors import UsageError
from doctor.facts import Version
from doctor.matrix.model import DriverBranch, Release
from doctor.matrix.query import Matrix

_ENGINE = re.compile(r"\s*([A-Za-z0-9][A-Za-z0-9._-]{0,60}?)\s*(?:==|[@ ])\s*(\S{1,60})\s*")
_DRIVER = re.compile(r"\s*(?:driver[:= ]\s*)?(\d{3}(?:\.\d{1,4}){0,3})\s*")
_KINDS = {
    "flags": "flag",
    "environment variables": "env-var",
    "quantizations": "quantization",
    "attention back ends": "attention-backend",
    "formats of the KV cache": "kv-dtype",
    "architectures": "model",
}
_GONE = ("removed", "unsupported", "renamed")


@dataclass(frozen=True)
class Point:
    """One side: a driver ("", version) or an engine in one version."""

    engine: str
    version: Version

    @property
    def label(self) -> str:
        """How it is named: "driver 580.95.05", "vllm 0.33.0"."""
        return f"{self.engine or 'driver'} {self.version}"


@dataclass(frozen=True)
class Change:
    """A property with its value on each side; "" where nothing is known."""

    what: str
    old: str
    new: str


@dataclass(frozen=True)
class Names:
    """Names of one kind that go and that come."""

    kind: str
    gone: tuple[str, ...]
    come: tuple[str, ...]


@dataclass(frozen=True)
class Difference:
    """Everything that differs, whatever the host."""

    old: Point
    new: Point
    changes: tuple[Change, ...]
    names: tuple[Names, ...] = ()
    notes: tuple[str, ...] = ()


def parse_point(matrix: Matrix, text: str) -> Point:
    """Read "580.95.05", "driver 580" or "vllm==0.33.0"; raises UsageError."""
    driver = _DRIVER.fullmatch(text)
    if driver:
        return Point("", Version(driver[1]))
    match = _ENGINE.fullmatch(text)
    version = Version.maybe(match[2]) if match else None
    name = matrix.canonical(match[1]) if match else None
    if match is None or version is None or not version.is_exact:
        raise UsageError(
            f"{text[:60]!r} is no driver and no version", "write 580.95 or vllm==0.33.0"
        )
    if name is None:
        known = ", ".join(matrix.engine_names)
        raise UsageError(f"nothing is known of {match[1][:60]!r}", f"known: {known}")
    return Point(name, version)


def difference(matrix: Matrix, old: Point, new: Point) -> Difference:
    """Compare two points; raises UsageError if they are not of one kind."""
    if old.engine != new.engine:
        raise UsageError(
            f"{old.label} and {new.label} cannot be compared",
            "name two drivers, or one engine twice",
        )
    if not old.engine:
        return _of_drivers(matrix, old, new)
    return _of_engine(matrix, old, new)


def _of_drivers(matrix: Matrix, old: Point, new: Point) -> Difference:
    rows = [_driver_facts(matrix, point.version) for point in (old, new)]
    notes = [
        f"{point.label}: its branch is not in the matrix"
        for point in (old, new)
        if matrix.branch(point.version) is None
    ]
    return Difference(old, new, tuple(_changed(rows[0], rows[1])), notes=tuple(notes))


def _driver_facts(matrix: Matrix, version: Version) -> dict[str, str]:
    row = matrix.branch(version)
    cuda = matrix.driver_cuda(version)
    compiler = matrix.compiler(cuda) if cuda is not None else None
    majors = [f.major for f in matrix.cuda.families if version.at_least(Version(f.min_driver))]
    return {
        "branch": str(row.branch) if row else "",
        "kind": _kind(row),
        "end of life": row.eol if row else "",
        "CUDA of its libcuda": str(cuda or ""),
        "newest PTX that it compiles": compiler.ptx_isa if compiler else "",
        "CUDA majors that run": " ".join(map(str, sorted(majors))),
        "kernel modules": row.modules if row else "",
    }


def _kind(row: DriverBranch | None) -> str:
    names = {"LTSB": "long-term", "PB": "production", "NFB": "new feature"}
    return names.get(row.kind, row.kind) if row else ""


def _of_engine(matrix: Matrix, old: Point, new: Point) -> Difference:
    releases = [matrix.release(point.engine, point.version) for point in (old, new)]
    notes = [
        f"{point.label}: not in the matrix; the newest release known is {matrix.newest(old.engine)}"
        for point, release in zip((old, new), releases, strict=True)
        if release is None
    ]
    rows = [_release_facts(release) for release in releases]
    return Difference(
        old, new, tuple(_changed(rows[0], rows[1])), tuple(_names(matrix, old, new)), tuple(notes)
    )


def _release_facts(release: Release | None) -> dict[str, str]:
    if release is None:
        return {}
    builds = sorted({v.name for v in release.variants})
    return {
        "released": release.released,
        "Python": release.requires_python or " ".join(release.pythons),
        "CUDA": release.cuda or "",
        "builds": " ".join(builds),
        "lowest compute capability": release.min_capability or "",
        "glibc": release.min_glibc or "",
        "architectures": " ".join(release.archs),
        "image": release.image,
        **{f"pin of {name}": spec for name, spec in release.pins.items()},
    }


def _changed(old: dict[str, str], new: dict[str, str]) -> Iterator[Change]:
    for what in dict.fromkeys((*old, *new)):
        before, after = old.get(what, ""), new.get(what, "")
        if before != after:
            yield Change(what, before, after)


def _names(matrix: Matrix, old: Point, new: Point) -> Iterator[Names]:
    for title, kind in _KINDS.items():
        before = _known(matrix, old, kind)
        after = _known(matrix, new, kind)
        gone, come = sorted(before - after), sorted(after - before)
        if gone or come:
            yield Names(title, tuple(gone), tuple(come))


def _known(matrix: Matrix, point: Point, kind: str) -> frozenset[str]:
    """Names of that kind that the version has, on some card at least."""
    there: set[str] = set()
    gone: set[str] = set()
    for match in matrix.claims(point.engine, kind, point.version):
        claim = match.claim
        if claim.value not in _GONE:
            there.add(claim.key)
        elif not claim.when:
            gone.add(claim.key)
    return frozenset(there - gone)
