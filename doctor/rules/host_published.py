"""Is there a build of the engine for the architecture and the C library of the host."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.facts import Binary
from doctor.findings import Evidence, Remedy
from doctor.matrix import Matrix
from doctor.matrix.model import Release
from doctor.rules import cards
from doctor.rules.decide import each
from doctor.rules.engine import Case, Fault, NotApplicable, Rule, Severity, rule
from doctor.rules.framework import TORCH_ENGINES
from doctor.rules.host_cpu import architecture
from doctor.rules.host_libc import distribution
from doctor.rules.software import Software, engine, packages

_MUSL = re.compile(r"^libc\.musl-|^ld-musl-")
_MACHINES = "x86_64|aarch64|ppc64le|s390x|armv7l"
_COMMON = ("x86_64", "aarch64")
_WHEEL_ARCH = re.compile(rf"(?:linux|manylinux\w*|musllinux\w*)_({_MACHINES})$")


@rule("HST131", cause="arch-wheel-missing", severity=Severity.ERROR, gate=True)
def no_build_for_architecture(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """There is no build of the engine for this CPU architecture or C library.

    What: the architecture of the host against that of installed binaries and wheels, and
        against the architectures for which the engine's release was published.
    Why: pip then builds from source, takes an old version, or says that no distribution
        matches; a binary of the other kind does not load at all.
    How to fix: a version or index with builds for the architecture, a container image
        for it, or compiling it.
    Silent when: the engine is installed and its files fit, the architecture is not known,
        or the release lists none.
    Sources: file names on the index (rows in the matrix); PEP 600 and PEP 656.
    """
    yield from each(
        (
            lambda: _other_machine(case),
            lambda: _other_libc(case),
            lambda: _musl_system(case, matrix),
            lambda: _not_published(case, matrix),
        )
    )


def _other_machine(case: Case) -> Iterator[Fault]:
    known = [b for b in case.scope.binaries.value or () if b.machine]
    tagged = [(p, m[1]) for p in packages(case) for t in p.tags if (m := _WHEEL_ARCH.search(t))]
    if not known and not tagged:
        raise NotApplicable("nothing tells for which machine it was built")
    arch = architecture(case)
    wrong = [(b.package or b.path, b.machine, b.path) for b in known if b.machine != arch]
    wrong += [(str(p.name), machine, p.location) for p, machine in tagged if machine != arch]
    for name, machine, at in wrong[:1]:
        yield Fault(
            message=f"{name} is built for {machine}, and this host is {arch}",
            evidence=(
                Evidence(f"{name}: {machine}", at),
                Evidence(f"host is {arch}", case.facts.host.arch.at),
            ),
            remedies=(Remedy(f"install it again on this host, for {arch}", role="python_env"),),
        )


def _other_libc(case: Case) -> Iterator[Fault]:
    """A binary linked against musl on a system with glibc, as wheels built wrongly are."""
    asking = [b for b in case.scope.binaries.value or () if any(map(_MUSL.match, b.needs))]
    if not asking:
        raise NotApplicable("no binary needs musl")
    libc = case.facts.host.libc.known("host.libc")
    if libc.kind == "glibc":
        yield _musl(asking[0], case)


def _musl(binary: Binary, case: Case) -> Fault:
    return Fault(
        message=f"{binary.package or binary.path} is linked against musl, "
        "and this system has glibc",
        evidence=(
            Evidence(f"{binary.path} needs {' '.join(binary.needs)}", binary.path),
            Evidence("C library: glibc", case.facts.host.libc.at),
        ),
        remedies=(Remedy("build the package from source, or install a version made on glibc"),),
    )


def _musl_system(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """A system with musl, and an engine of which no wheel is made for it."""
    libc, row = case.facts.host.libc.value, distribution(case, matrix)
    kind = libc.kind if libc is not None else row.libc if row is not None else ""
    if kind != "musl" or case.scope.kind in ("container", "image"):
        raise NotApplicable("the system is not known to have musl")
    found = engine(case, matrix)
    names = [artefact.file for release in found.rows for artefact in release.files]
    claims = [match.claim for match in matrix.claims(found.name, "libc")]
    if not names and not claims:
        raise NotApplicable(f"nothing tells of {found.name} which C library it is made for")
    if not any("musllinux" in name for name in names):
        at = case.facts.host.libc.at or case.facts.host.os.at
        yield Fault(
            message=f"this system's C library is musl, and {found.name} has no build for it",
            evidence=(Evidence("C library: musl", at), found.evidence),
            remedies=(Remedy("use the container image, or a distribution with glibc"),),
            sources=tuple(found.rows[0].source if names else claims[0].source),
            # A program that is not fetched by pip may come from the distribution itself.
            severity=None if names else Severity.WARNING,
        )


def _not_published(case: Case, matrix: Matrix) -> Iterator[Fault]:
    found = engine(case, matrix)
    domain = matrix.engine(found.name)
    held = case.scope.package(found.name, *(domain.packages if domain else ()))
    by_wheel = found.name in TORCH_ENGINES
    if held is not None and (not by_wheel or _is_in_use(case) or held.location):
        # From an image, a source or the vendor's own packages: it is there.
        raise NotApplicable(f"{found.name} is installed")
    if case.scope.package("torch-npu", "dlinfer-ascend") or case.facts.ascend.cann.is_known:
        raise NotApplicable("builds for NPUs come from elsewhere")
    listed = [row for row in found.rows if row.archs]
    arch = architecture(case)
    is_rare = arch not in _COMMON  # what no listed release is for, others are hardly for
    if not listed or (len(listed) < len(found.rows) and not is_rare):
        raise NotApplicable(f"no architectures are listed for {found.label}")
    if any(arch in row.archs for row in listed):
        return
    is_board = case.facts.host.platform.value == "jetson"
    if by_wheel and (is_board or any(cards.is_tegra(d, matrix) for d in case.nvidia_devices)):
        raise NotApplicable("wheels for a Jetson are of an index of its own: another rule")
    offered = " ".join(dict.fromkeys(a for row in listed for a in row.archs))
    newer = _newest_with(case, matrix, found, arch)
    yield Fault(
        message=f"{found.label} is published for {offered}, not for {arch}",
        evidence=(found.evidence, Evidence(f"host is {arch}", case.facts.host.arch.at)),
        remedies=(*newer, Remedy("or use a container image for it, or compile it here")),
        sources=tuple(listed[0].source),
        extrapolated=found.beyond,
        # Who names a version may mean to install it, or may have compiled it.
        severity=Severity.WARNING if held is not None else None,
    )


def _is_in_use(case: Case) -> bool:
    """Tell whether more is stated of the environment than which version is wanted in it."""
    is_board = case.facts.host.platform.value == "jetson"  # with sources of its own
    others = (case.scope.torch.is_known, case.scope.binaries.is_known, bool(case.scope.variants))
    return is_board or any(others) or case.scope.kind in ("container", "image")


def _newest_with(case: Case, matrix: Matrix, found: Software, arch: str) -> tuple[Remedy, ...]:
    domain = matrix.engine(found.name)
    rows: tuple[Release, ...] = domain.releases if domain else ()
    fitting = next((r for r in rows if arch in r.archs and not r.prerelease), None)
    if fitting is None:
        return ()
    return (
        Remedy(
            f"install {found.name} {fitting.version}, which has a build for {arch}",
            (f"pip install '{found.name}=={fitting.version}'",),
            role="python_env",
        ),
    )


RULES: tuple[Rule, ...] = (no_build_for_architecture,)
