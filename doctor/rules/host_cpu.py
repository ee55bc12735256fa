"""Does the processor have the instructions, and the architecture, that the builds are made for."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace

from doctor.facts import Missing, MissingFact
from doctor.findings import Evidence, Remedy
from doctor.matrix import ClaimMatch, Matrix
from doctor.rules.decide import each
from doctor.rules.engine import Case, Fault, NotApplicable, Rule, Severity, rule
from doctor.rules.libc_floors import of_program
from doctor.rules.settings import Setting, covering, holds, settings
from doctor.rules.software import Software, engine

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
    meant = [row for row in rows if re.search(str(row["name"]), name, re.IGNORECASE)]
    return tuple(dict.fromkeys(str(flag) for row in meant for flag in row["lacks"]))


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
    if _is_cpu_build(case, found):
        setting = replace(setting, arguments={**setting.arguments, "device": "cpu"})
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


def _is_cpu_build(case: Case, found: Software) -> bool:
    """The label of its version or its variant names the CPU."""
    label = found.version.local if found.version is not None else ""
    return "cpu" in (label, case.scope.variants.get(found.name, "").lower())


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


def architecture(case: Case) -> str:
    """The architecture of the host, by the name that wheels have for it; raises if unknown."""
    name = case.facts.host.arch.known("host.arch")
    return _ALIASES.get(name.lower(), name)


RULES: tuple[Rule, ...] = (instructions_missing,)
