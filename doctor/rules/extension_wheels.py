"""Extensions whose ready wheels are for certain torch and Python versions, else compiled."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from doctor.facts import Missing, MissingFact, Version
from doctor.findings import Evidence, Remedy
from doctor.matrix import ClaimMatch, Matrix
from doctor.rules.decide import missed
from doctor.rules.engine import Case, Fault, NotApplicable, Rule, Severity, rule
from doctor.rules.relevance import is_relevant
from doctor.rules.settings import covering, holds, settings
from doctor.rules.software import (
    Software,
    admits,
    engine,
    engine_name,
    installed,
    packages,
    software,
    torch_version,
)

_LABELLED = re.compile(r"torch\d")
_COMPILER = re.compile(r"gcc|g\+\+|cc|c\+\+|build-essential|c(?:\+\+)? compiler", re.IGNORECASE)
_NVCC = re.compile(r"nvcc|cuda[ _-]?(toolkit|home)", re.IGNORECASE)


@rule("FRM303", cause="abi-mismatch", severity=Severity.WARNING)
def no_wheel_for_torch(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """No ready wheel of the installed extension is for the torch that is here.

    What: the torch versions that the wheels of the extension's release were made for
        against the torch that is installed.
    Why: a wheel of another torch ends in "undefined symbol: _ZN3c10..." at import; it is left
        behind where torch was changed afterwards, and taken where its name is near enough.
    How to fix: a release with a wheel for this torch, or a build of it on the spot.
    Silent when: its version or the report says for which torch it was built, its libraries
        were read, or torch is a nightly, a vendor's or no CUDA build. A note where the engine
        does not use it, or a CUDA toolkit is here that may have built it.
    Sources: release pages and workflows of the extension (claims in the matrix).
    """
    torch = _public_torch(case)
    if case.scope.binaries.is_known:
        raise NotApplicable("the libraries themselves were read")
    for found in _unlabelled(case, matrix):
        for match in _wheels(case, matrix, found):
            if admits(match.claim.value, torch) is False:
                yield _other_torch(case, matrix, found, torch, match)


def _wheels(case: Case, matrix: Matrix, found: Software) -> list[ClaimMatch]:
    """What is known of the torch of its wheels; some of it holds for certain CUDA builds only."""
    setting = settings(case, matrix)[0]
    matches = covering(matrix, found, "wheels", "torch")
    return [match for match in matches if holds(match.claim, setting) is not False]


def _public_torch(case: Case) -> Version:
    """The torch of the scope, where it is a release that wheels can be made for."""
    torch = torch_version(case)
    if torch is None:
        case.scope.packages.known("packages")
        raise NotApplicable("no torch in this scope")
    if torch.is_prerelease or not (torch.local == "" or torch.local.startswith("cu1")):
        raise NotApplicable("a nightly, a vendor's own torch or one without CUDA")
    return torch


def _unlabelled(case: Case, matrix: Matrix) -> Iterator[Software]:
    """Installed extensions of which nothing says for which torch they were built."""
    for package in packages(case):
        if matrix.engine_packages.get(package.name) != package.name or package.version is None:
            continue
        stated = case.scope.built_for.get(package.name, "")
        variant = case.scope.variants.get(package.name, "")
        if not stated and not _LABELLED.search(f"{package.version.local} {variant}"):
            at = package.location or case.scope.packages.at
            yield software(matrix, package.name, package.version, at)


def _other_torch(
    case: Case, matrix: Matrix, found: Software, torch: Version, match: ClaimMatch
) -> Fault:
    is_source = any(True for _ in matrix.claims(found.name, "artefact", None, "sdist"))
    may_be_built = is_source and bool(case.facts.nvidia.toolkits.value)
    used = _is_used(case, matrix, found.name) and not may_be_built
    minor = ".".join(map(str, torch.release[:2]))
    early = f" (torch{minor} in a name means a nightly)" * (minor == _nightly(match))
    ready = f"{found.label} has ready wheels for torch {match.claim.value}, none for {torch}{early}"
    if match.claim.value.startswith("!="):
        ready = f"of the ready wheels of {found.label} {match.claim.text}; this is torch {torch}"
    return Fault(
        f"{ready}: unless it was built here, it does not load",
        evidence=(found.evidence, Evidence(f"torch {torch}", case.scope.torch.at)),
        remedies=(
            Remedy(
                f"install a release of {found.name} that has a wheel for this torch, or build it",
                (f"pip install --no-build-isolation --force-reinstall --no-deps {found.name}",),
                role="python_env",
            ),
        ),
        sources=match.claim.source,
        severity=None if used else Severity.INFO,
        extrapolated=match.extrapolated,
    )


def _nightly(match: ClaimMatch) -> str:
    """The torch of which only a nightly existed when the release's wheels were made."""
    return str(match.claim.data.get("nightly", ""))


def _is_used(case: Case, matrix: Matrix, name: str) -> bool:
    """Tell whether the extension is what is run, asked for, or needed by the engine."""
    work = case.workload
    backend = str((work.args.value or {}).get("attention_backend", "")) if work else ""
    return is_relevant(case, matrix, name) or "flash" in backend.lower()


@rule("PYE305", cause="build-toolchain-missing", severity=Severity.ERROR)
def must_be_built_without_compiler(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """What is wanted comes as source only, or has no wheel that fits, and no compiler is here.

    What: engines and extensions whose index holds source alone, where a C++ compiler was looked
        for and not found; those with ready wheels elsewhere by the torch and Python that these
        were made for, where nvcc was not found.
    Why: its setup takes a ready wheel if one fits and compiles otherwise: "CUDA_HOME
        environment variable is not set", or hours of work.
    How to fix: a release, torch and Python for which there is a wheel, or the compiler.
    Silent when: a wheel fits, the release's wheels are not known, nobody missed the compiler,
        or it runs from an image.
    Sources: file names of the index, release pages and workflows (claims in the matrix).
    """
    found = engine(case, matrix)
    source = covering(matrix, found, "artefact", "sdist")
    if not source or case.scope.image.ref:
        raise NotApplicable(f"{found.name} comes built")
    system = case.facts.host.os.value
    is_windows = system is not None and system.id == "windows"
    if is_windows and source[0].claim.data.get("ready") == "linux" and _is_installed_here(case):
        fault = _no_compiler(found, "has ready wheels for Linux alone", "nvcc", source[0])
        yield replace(fault, severity=Severity.WARNING)
    elif missed(case, _COMPILER) and not wheel_fits(case, matrix):
        yield _no_compiler(found, "comes as source", "a C++ compiler", source[0])
    elif not missed(case, _NVCC) or case.scope.package(found.name) is None:
        raise NotApplicable("nobody missed a compiler, or no release is named")
    else:
        yield from _no_wheel_here(case, matrix, found)


def _is_installed_here(case: Case) -> bool:
    """Somebody installs it by pip, and tells of no CUDA toolkit that could compile it."""
    work = case.workload
    is_told = work is not None and (work.building.is_known or work.plainly.is_known)
    return is_told and not case.facts.nvidia.toolkits.value


def _no_wheel_here(case: Case, matrix: Matrix, found: Software) -> Iterator[Fault]:
    torch, python = _public_torch(case), case.scope.python.value
    for match in _wheels(case, matrix, found):
        spec = str(match.claim.data.get("python", ""))
        if admits(match.claim.value, torch) is False:
            yield _no_compiler(found, f"has no ready wheel for torch {torch}", "nvcc", match)
        elif python is not None and spec and admits(spec, python.version) is False:
            what = f"has no ready wheel for Python {python.version}"
            yield _no_compiler(found, what, "nvcc", match)
        elif python is None and spec:
            raise MissingFact("python", Missing.NOT_STATED)


def _wanted(case: Case, matrix: Matrix) -> Software | None:
    return installed(case, matrix, engine_name(case, matrix))


def wheel_fits(case: Case, matrix: Matrix) -> bool:
    """Tell whether the extension that is wanted has a ready wheel for the torch and Python here."""
    found, torch, python = _wanted(case, matrix), torch_version(case), case.scope.python.value
    if found is None or torch is None or python is None:
        return False
    matches = covering(matrix, found, "wheels", "torch")
    specs = [(m.claim.value, str(m.claim.data.get("python", ""))) for m in matches]
    return any(
        admits(of_torch, torch) is True and admits(of_python, python.version) is True
        for of_torch, of_python in specs
    )


def _no_compiler(found: Software, what: str, tool: str, match: ClaimMatch) -> Fault:
    claim = match.claim
    wheel = f"a torch {claim.value}, for which it has wheels" if claim.kind == "wheels" else ""
    return Fault(
        f"{found.label} {what}, and {tool} is not here to build it",
        evidence=(found.evidence, Evidence(f"{tool} is absent", "absent")),
        remedies=(
            *((Remedy(wheel or claim.remedy),) if wheel or claim.remedy else ()),
            Remedy(f"or install {tool}"),
        ),
        sources=claim.source,
        extrapolated=match.extrapolated,
    )


RULES: tuple[Rule, ...] = (no_wheel_for_torch, must_be_built_without_compiler)
