"""Builds of the releases that an engine may be, where nothing tells which one it is."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from doctor.facts import Version
from doctor.findings import Evidence, Remedy
from doctor.matrix import Matrix
from doctor.matrix.model import Release
from doctor.rules.builds import CudaBuild, as_cuda, cuda_variants, release_of
from doctor.rules.cuda_level import Load, relation
from doctor.rules.engine import Case, NotApplicable
from doctor.rules.installing import install_build
from doctor.rules.software import engine


def lowest_build(
    case: Case, matrix: Matrix, default: bool = False, recent: bool = False
) -> CudaBuild | None:
    """The lowest CUDA for which any listed release of an engine of unknown version is built.

    `default` leaves out builds that a plain install does not bring, `recent` the oldest tenth
    of the releases, which nobody is likely to mean.
    """
    found = engine(case, matrix)
    domain = matrix.engine(found.name)
    if found.version is not None or domain is None or found.name == "torch":
        return None
    rows = domain.releases[: -(len(domain.releases) // 10) or None] if recent else domain.releases
    known = [(as_cuda(row.cuda or ""), row) for row in rows]
    if not default:
        known += [(cuda, row) for row in rows for _, cuda in cuda_variants(row)]
    listed = [(cuda, row) for cuda, row in known if cuda is not None]
    if not listed:
        return _lowest_claim(matrix, found.name)
    cuda, row = min(listed, key=lambda pair: pair[0].low)
    what = "default build of a release" if default else "release"
    since = f" from {rows[-1].version} on" if recent else ""
    fact = Evidence(
        f"no listed {what} of {found.name}{since} is for less than CUDA {cuda}", "matrix"
    )
    return CudaBuild(found.name, None, cuda, fact, assumed=True, sources=tuple(row.source))


def _lowest_claim(matrix: Matrix, name: str) -> CudaBuild | None:
    """The same of an engine whose rows name no CUDA, and whose claims do."""
    known = [(as_cuda(m.claim.value or ""), m.claim) for m in matrix.claims(name, "cuda")]
    listed = [(cuda, claim) for cuda, claim in known if cuda is not None]
    if not listed:
        return None
    cuda, claim = min(listed, key=lambda pair: pair[0].low)
    fact = Evidence(f"no release of {name} is stated for less than CUDA {cuda}", "matrix")
    return CudaBuild(name, None, cuda, fact, assumed=True, sources=tuple(claim.source))


def named_build(case: Case) -> CudaBuild | None:
    """What names of packages, or statements of what one is built for, say: "cupy-cuda12x".

    Of several the lowest; sure only where it is the engine's own.
    """
    name = case.workload.engine if case.workload is not None else ""
    found = [*_by_name(case), *_by_statement(case)]
    own = [b for b in found if name and b.package.startswith(name)]
    lowest = min(own or found, key=lambda build: build.cuda.low, default=None)
    return None if lowest is None else replace(lowest, assumed=True, several=not own)


def toolkit_build(case: Case) -> CudaBuild | None:
    """The one toolkit that is told, where nothing else tells of any CUDA: what it compiles."""
    scope, toolkits = case.scope, case.facts.nvidia.toolkits
    found = [t.version for t in toolkits.value or () if t.version is not None]
    is_all = not toolkits.partial  # a host that was looked at, where a toolkit may lie unused
    if is_all or len(found) != 1 or scope.packages.value or scope.image.ref or scope.variants:
        return None
    fact = Evidence(f"CUDA toolkit {found[0]}", toolkits.at)
    what = "what the CUDA toolkit compiles"
    return CudaBuild(what, None, found[0], fact, assumed=True, several=True)


def stated_build(case: Case) -> CudaBuild | None:
    """The CUDA that the engine itself is said to be built with."""
    name = case.workload.engine if case.workload is not None else ""
    return next((build for build in _by_statement(case) if build.package == name), None)


def told_build(case: Case) -> CudaBuild | None:
    """The CUDA of the archive or binaries that notes say are used."""
    told = (match for note in case.facts.notes for match in _ARCHIVE.finditer(note))
    for match in told:
        number = match["cuda"] or match["front"]
        cuda = Version.maybe(number if "." in number else f"{number}.*")
        if cuda is not None:
            name = case.workload.engine if case.workload is not None else "the engine"
            return CudaBuild(name, None, cuda, Evidence(match[0], "notes"))
    return None


_OF_CUDA = r"cuda[-_ ]?v?(?P<cuda>1\d(?:\.\d{1,2})?)(?![\d.]*\d)"
_ARCHIVE = re.compile(
    r"\b(?:binar(?:y|ies)|builds?|release|archive|zip|pre-?built|package)\b[^.;\n]{0,40}?\b"
    + _OF_CUDA
    + "|"
    + r"\b"
    + _OF_CUDA.replace("?P<cuda>", "?P<front>")
    + r"[^.;\n]{0,12}\b(?:binar(?:y|ies)|release|archive|zip|prebuilt|package)\b",
    re.IGNORECASE,
)


def _by_name(case: Case) -> Iterator[CudaBuild]:
    for package in case.scope.packages.value or ():
        match = _NAMED.search(package.name) or _LOCAL.search(str(package.version or ""))
        if match is not None:
            # NVIDIA's own packages of CUDA carry its version.
            is_runtime = package.name.startswith("nvidia-cuda-runtime-cu") and package.version
            cuda = package.version if is_runtime else as_cuda(f"{match[1]}.{match[2] or '*'}")
            if cuda is not None:
                at = package.location or case.scope.packages.at
                yield CudaBuild(package.name, package.version, cuda, Evidence(package.name, at))


def _by_statement(case: Case) -> Iterator[CudaBuild]:
    for name, text in case.scope.built_for.items():
        match = _CUDA.search(text)
        cuda = Version.maybe(match[1]) if match else None
        if cuda is not None:
            fact = Evidence(f"{name} is built for {text}", "built_for")
            yield CudaBuild(name, None, cuda, fact)


# The local part of a version, as in jaxlib 0.4.10+cuda12.cudnn88.
_LOCAL = re.compile(r"\+cuda(1[0-9])(\d)?(?=$|\.cudnn)")
_NAMED = re.compile(r"[-_]cu(?:da)?-?(8|9|1[0-9])(\d)?x?(?=$|[-_])")
_CUDA = re.compile(r"\bcuda[ =:v]{0,3}(\d{1,2}\.\d{1,2})\b", re.IGNORECASE)


def compiled_engine(case: Case, matrix: Matrix) -> tuple[str, Release] | None:
    """The engine's package and release, where that comes in builds for CUDA versions."""
    try:
        found = engine(case, matrix)
    except NotApplicable:
        return None
    row = found.rows[0] if found.is_settled else None
    names = (package for package, name in matrix.engine_packages.items() if name == found.name)
    package = next((name for name in names if case.scope.package(name)), None)
    if row is None or package is None or not cuda_variants(row):
        return None
    return package, row


def older_builds(
    case: Case, matrix: Matrix, build: CudaBuild, offered: Version, driver: Version | None
) -> tuple[Remedy, ...]:
    """The newest build of the same version that the driver can run, if there is one.

    An engine that is itself compiled for a CUDA version is replaced together with its torch:
    against another torch its libraries would not load.
    """
    holder = compiled_engine(case, matrix)
    package = build.package if holder is None else holder[0]
    release = release_of(matrix, build) if holder is None else holder[1]
    if release is None:
        return ()
    for variant, cuda in cuda_variants(release):
        found = relation(cuda, offered, driver, matrix)
        if found not in (Load.FULL, Load.MINOR):
            continue
        return (install_build(case, matrix, package, (release, variant), f"for CUDA {cuda}"),)
    return ()
