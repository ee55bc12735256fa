"""Does the processor have the instructions, and the architecture, that the builds are made for."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace

from doctor.facts import Binary, Missing, MissingFact
from doctor.findings import Evidence, Remedy
from doctor.matrix import ClaimMatch, Matrix
from doctor.matrix.model import Release
from doctor.rules import cards
from doctor.rules.decide import each
from doctor.rules.engine import Case, Fault, NotApplicable, Rule, Severity, rule
from doctor.rules.framework import TORCH_ENGINES
from doctor.rules.host_libc import distribution
from doctor.rules.libc_floors import of_program
from doctor.rules.settings import Setting, covering, holds, settings
from doctor.rules.software import Software, engine, packages

_ALIASES = {"arm64": "aarch64", "amd64": "x86_64", "x64": "x86_64", "sbsa": "aarch64"}
_MUSL = re.compile(r"^libc\.musl-|^ld-musl-")
_MACHINES = "x86_64|aarch64|ppc64le|s390x|armv7l"
_WHEEL_ARCH = re.compile(rf"(?:linux|manylinux\w*|musllinux\w*)_({_MACHINES})$")


@rule("HST121", cause="cpu-isa-missing", severity=Severity.ERROR)
def instructions_missing(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """The processor, or what a virtual machine shows of it, lacks instructions of a build.

    What: the CPU flags against those that the engine's published build, or a binary of
        the scope, is compiled for.
    Why: such a build dies of "Illegal instruction", or leaves the GPU unused because its
        libraries refuse to load.
    How to fix: on a virtual machine, pass the host's CPU model through. Else a build for
        older processors, or one compiled on this machine.
    Silent when: the flags are not known, or the engine was compiled on this machine.
    Sources: build scripts and issue threads of the engines (claims in the matrix).
    """
    yield from each((lambda: _by_binaries(case, matrix), lambda: _by_claims(case, matrix)))


def _of_model(case: Case, matrix: Matrix) -> tuple[str, ...]:
    """Flags that a processor of this name has not, where its own list was not read."""
    cpu = case.facts.host.cpu
    if cpu.flags.is_known and not cpu.flags.partial:
        return ()
    name = (cpu.model.value or "")[:200]
    rows = (match.claim.data for match in matrix.claims("cpu", "cpu-model") if name)
    row = next((r for r in rows if re.search(str(r["name"]), name, re.IGNORECASE)), {})
    return tuple(map(str, row.get("lacks", ())))


def _lacks(case: Case, matrix: Matrix, flags: Iterable[str]) -> list[str]:
    """Which of these flags the processor is known to lack; raises if nothing is known of one."""
    cpu = case.facts.host.cpu
    stated = (*(cpu.lacks.value or ()), *_of_model(case, matrix))
    missing = [flag for flag in flags if flag in stated]
    if missing:
        return missing
    have = cpu.flags.known("host.cpu.flags")
    if cpu.flags.partial:
        cut = [flag for flag in flags if flag not in have and _is_passed_over(flag, have, matrix)]
        if cut or all(flag in have for flag in flags):
            return cut
        raise MissingFact("host.cpu.flags, all of them", Missing.NOT_STATED, cpu.flags.at)
    return [flag for flag in flags if flag not in have]


def _is_passed_over(flag: str, have: tuple[str, ...], matrix: Matrix) -> bool:
    """Tell whether a part copied from the kernel's list goes on past the place of a flag."""
    places = [match.claim.data for match in matrix.claims("cpu", "flag-order", key=flag)]
    return len(have) >= _COPIED and any(
        any(name in have for name in place["after"])
        and any(name in have for name in place["before"])
        for place in places
    )


_COPIED = 16  # nobody picks so many flags by hand


def _by_binaries(case: Case, matrix: Matrix) -> Iterator[Fault]:
    asking = [b for b in case.scope.binaries.value or () if b.isa]
    if not asking:
        raise NotApplicable("no binary tells which instructions it needs")
    for binary in asking:
        missing = _lacks(case, matrix, binary.isa)
        if missing:
            fact = Evidence(f"{binary.path} needs {' '.join(binary.isa)}", binary.path)
            yield _fault(case, binary.package or binary.path, missing, fact, ())


def _by_claims(case: Case, matrix: Matrix) -> Iterator[Fault]:
    found = engine(case, matrix)
    own = covering(matrix, found, "isa") or of_program(matrix, found.name, "isa-program")
    ref = case.scope.image.ref
    images = [m for m in covering(matrix, found, "isa-image") if m.claim.key in ref]
    claims = [m for m in (*images, *own) if m.claim.value == "required"]
    setting = _implied(case, matrix, settings(case, matrix)[0])
    states = [(match, holds(match.claim, setting)) for match in claims]
    asked = [(m, state) for m, state in states if state or (state is None and _may_be(m))]
    if not asked:
        raise NotApplicable(f"no instruction set is known that {found.name} needs")
    for match, state in asked:
        missing = _lacks(case, matrix, _flags(match))
        if missing:
            fault = _fault(case, found.label, missing, found.evidence, (match,))
            # Whether the build in question is the one that needs them is not known.
            is_sure = state and match.claim.kind in ("isa", "isa-image")
            yield fault if is_sure else replace(fault, severity=Severity.WARNING)
            return


def _may_be(match: ClaimMatch) -> bool:
    """Tell whether a condition of a claim may hold unsaid; what must be asked for does not."""
    return not any(key.startswith("arg:") for key in match.claim.when)


def _implied(case: Case, matrix: Matrix, setting: Setting) -> Setting:
    """Names of x86 flags, or of its processors, tell the architecture where it was not stated."""
    cpu = case.facts.host.cpu
    names = (*(cpu.flags.value or ()), *(cpu.lacks.value or ()), *_of_model(case, matrix))
    is_x86 = any(name.startswith(("avx", "sse", "fma", "amx")) for name in names)
    return replace(setting, arch=setting.arch or "x86_64") if is_x86 else setting


def _flags(match: ClaimMatch) -> tuple[str, ...]:
    listed = match.claim.data.get("flags", ())
    return tuple(listed) if listed else tuple(match.claim.key.split("|"))


def _fault(
    case: Case, name: str, missing: list[str], fact: Evidence, matches: tuple[ClaimMatch, ...]
) -> Fault:
    cpu = case.facts.host.cpu
    is_virtual = case.facts.host.platform.value == "vm"
    own = [Remedy(m.claim.remedy) for m in matches if m.claim.remedy]
    mask = Remedy(
        "give the virtual machine the host's CPU model",
        ("virsh edit VM  # <cpu mode='host-passthrough'/>; on Proxmox: cpu: host",),
    )
    build = Remedy("or use a build for older processors, or compile on this machine")
    return Fault(
        message=f"{name} needs {' '.join(missing)}, which "
        f"{cpu.model.value or 'this processor'} does not have",
        evidence=(fact, Evidence(f"no {' '.join(missing)}", cpu.lacks.at or cpu.flags.at)),
        remedies=(*((mask,) if is_virtual else ()), *own, build),
        sources=tuple(source for m in matches for source in m.claim.source),
        extrapolated=matches[0].extrapolated if matches else "",
    )


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


def architecture(case: Case) -> str:
    """The architecture of the host, by the name that wheels have for it; raises if unknown."""
    name = case.facts.host.arch.known("host.arch")
    return _ALIASES.get(name.lower(), name)


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
    if not names:
        raise NotApplicable(f"no files of {found.name} are listed")
    if not any("musllinux" in name for name in names):
        at = case.facts.host.libc.at or case.facts.host.os.at
        yield Fault(
            message=f"this system's C library is musl, and {found.name} has no build for it",
            evidence=(Evidence("C library: musl", at), found.evidence),
            remedies=(Remedy("use the container image, or a distribution with glibc"),),
            sources=tuple(found.rows[0].source),
        )


def _not_published(case: Case, matrix: Matrix) -> Iterator[Fault]:
    found = engine(case, matrix)
    domain = matrix.engine(found.name)
    held = case.scope.package(found.name, *(domain.packages if domain else ()))
    by_wheel = found.name in TORCH_ENGINES
    if held is not None and (not by_wheel or _is_in_use(case) or held.location):
        # From an image, a source or the vendor's own packages: it is there.
        raise NotApplicable(f"{found.name} is installed")
    listed = [row for row in found.rows if row.archs]
    if not listed or len(listed) < len(found.rows):
        raise NotApplicable(f"no architectures are listed for {found.label}")
    arch = architecture(case)
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


RULES: tuple[Rule, ...] = (instructions_missing, no_build_for_architecture)
