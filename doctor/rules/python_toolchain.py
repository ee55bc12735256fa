"""Rules about compilers that are needed at run time (JIT) or to build an engine."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from doctor.facts import CodeTarget, ComputeCapability, OsRelease, Version
from doctor.findings import Evidence, Remedy
from doctor.matrix import ClaimMatch, Matrix
from doctor.rules import cards
from doctor.rules.decide import is_absent, missed
from doctor.rules.driver_choice import package_commands
from doctor.rules.engine import Case, Fault, NotApplicable, Severity, rule
from doctor.rules.extension_wheels import wheel_fits
from doctor.rules.model_facts import environment
from doctor.rules.settings import applicable, possible, settings
from doctor.rules.software import Software, engine, installed, software

# Names by which a tool is reported missing, and the packages that bring it.
_TOOLS: dict[str, tuple[str, ...]] = {
    "nvcc": ("nvcc", "cuda toolkit", "cuda-toolkit", "cuda_home"),
    "gcc": ("gcc", "cc", "c compiler", "build-essential"),
    "g++": ("g++", "gcc-c++", "c++ compiler", "cc1plus", "cl.exe", "msvc"),
    "python-headers": (
        "python.h",
        "python3-dev",
        "python3-devel",
        "python-dev",
        *(f"python3.{n}-{end}" for n in range(8, 16) for end in ("dev", "devel")),
    ),
    "ptxas": ("ptxas",),
    "hipcc": ("hipcc", "hip compiler"),
    "rustc": ("rustc", "cargo", "rust"),
    "ninja": ("ninja",),
    "cmake": ("cmake",),
    "mpicc": ("mpicc", "mpicxx", "mpi compiler", "libopenmpi-dev"),
}
_ANY = re.compile(r".{1,80}")
_LISTED = "--list-gpu-"  # of an option of nvcc, whose output people quote
_TARGET = re.compile(r"\b(?:sm|compute)_\d{2,3}[af]?\b")
_PACKAGES: dict[str, dict[str, tuple[str, ...]]] = {
    "nvcc": {"debian": ("cuda-toolkit",), "rhel": ("cuda-toolkit",)},
    "gcc": {"debian": ("gcc",), "rhel": ("gcc",)},
    "g++": {"debian": ("g++",), "rhel": ("gcc-c++",)},
    "python-headers": {"debian": ("python3-dev",), "rhel": ("python3-devel",)},
    "cmake": {"debian": ("cmake",), "rhel": ("cmake",)},
    "mpicc": {"debian": ("libopenmpi-dev",), "rhel": ("openmpi-devel",)},
}
_COMPILERS = ("flashinfer-python", "triton", "deep-gemm")
# Switches of engines that bring DeepGEMM themselves and compile with it.
_DEEP_GEMM = ("SGL_ENABLE_JIT_DEEPGEMM", "SGLANG_ENABLE_JIT_DEEPGEMM", "VLLM_USE_DEEP_GEMM")
_MODULE_BUILD = ("gcc", "g++", "make")


def _is_missing(case: Case, tool: str) -> bool:
    names = _TOOLS.get(tool, (tool,))
    stated = (*(case.scope.absent.value or ()), *(case.facts.host.absent.value or ()))
    return any(entry.strip().lower() in names for entry in stated)


def install(case: Case, tool: str) -> Remedy:
    """The packages of the host's distribution; of both kinds where it is not known."""
    if tool == "ninja":
        return Remedy("install ninja", ("uv pip install ninja",))
    names = _PACKAGES.get(tool, {})
    known = package_commands(case.facts.host.os.value, names)
    either = (package_commands(OsRelease(kind), names) for kind in ("debian", "rhel"))
    return Remedy(f"install {tool}", known or tuple(c for commands in either for c in commands))


@rule("PYE301", cause="build-toolchain-missing", severity=Severity.ERROR)
def run_time_compiler_missing(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """The engine compiles kernels when it starts, and the compiler it needs is not there.

    What: tools that the matrix says the engine release needs at run time (nvcc, a C
        compiler, Python.h, ninja), where they were looked for and not found.
    Why: FlashInfer, Triton, DeepGEMM and TorchInductor compile for the card at first use;
        without the compiler the engine stops after the weights are loaded.
    How to fix: install the tool, or the package of prebuilt kernels, or turn the part that
        compiles off; the finding names what the release offers.
    Silent when: prebuilt kernels (flashinfer-jit-cache, flashinfer-cubin) are installed,
        or nobody looked for the tool.
    Sources: installation pages and issue threads of the engines (rows in the matrix).
    """
    setting = settings(case, matrix)[0]
    pairs = [
        (found, pair)
        for found in compiling(case, matrix)
        for pair in possible(matrix, found, "system-lib", setting)
    ]
    seen = False
    for found, (match, is_sure) in pairs:
        tool = str(match.claim.data.get("toolchain", ""))
        if not tool or not _is_missing(case, tool) or prebuilt(case, match):
            continue
        if tool == "nvcc" and case.devices and not case.nvidia_devices:
            continue
        fault = _missing_tool(case, found, tool, match)
        seen = True
        yield fault if is_sure else replace(fault, severity=Severity.WARNING)

    if not seen:
        yield from _missed_tools(
            case, matrix, {str(m.claim.data.get("toolchain")) for _, (m, _) in pairs}
        )


def _missed_tools(case: Case, matrix: Matrix, judged: set[str]) -> Iterator[Fault]:
    """Tools that a person missed, for an engine of which nothing is known about them."""
    if wheel_fits(case, matrix):
        return
    found = engine(case, matrix)
    names = {n.lower() for n in missed(case, _ANY)}
    for tool, others in _TOOLS.items():
        if tool not in judged and found.name != "driver" and not names.isdisjoint((tool, *others)):
            yield Fault(
                f"{tool} was missed, and {found.label} may have to be compiled",
                evidence=(found.evidence, Evidence(f"{tool} is absent", "absent")),
                remedies=(install(case, tool),),
                severity=Severity.WARNING,
            )


def compiling(case: Case, matrix: Matrix) -> Iterator[Software]:
    """The engine, and the installed distributions that compile kernels for it."""
    yield engine(case, matrix)
    for name in _COMPILERS:
        found = installed(case, matrix, name)
        if found is not None:
            yield found
    env = environment(case)
    on = [name for name in _DEEP_GEMM if env.get(name, "").lower() in ("1", "true", "yes")]
    if on and case.scope.package("deep-gemm", "deepgemm") is None:
        yield software(matrix, "deep-gemm", None, f"env {on[0]}")


def prebuilt(case: Case, match: ClaimMatch) -> bool:
    """Tell whether a package that makes the compiler needless is installed."""
    return case.scope.package(*match.claim.data.get("unless", ())) is not None


def _missing_tool(case: Case, found: Software, tool: str, match: ClaimMatch) -> Fault:
    hint = (Remedy(match.claim.remedy),) if match.claim.remedy else ()
    return Fault(
        f"{found.label} needs {tool} at run time, and it is not installed",
        evidence=(found.evidence, Evidence(f"{tool} is absent", case.scope.absent.at)),
        remedies=(*hint, install(case, tool)),
        sources=match.claim.source,
        extrapolated=match.extrapolated,
    )


def toolkits(case: Case) -> list[Version]:
    """Versions of the host's toolkits; raises where they are not known or there are none."""
    known = case.facts.nvidia.toolkits.known("nvidia.toolkits")
    versions = [t.version for t in known if t.version is not None]
    if not versions:
        raise NotApplicable("no CUDA toolkit here")
    return versions


@rule("PYE303", cause="build-toolchain-missing", severity=Severity.WARNING)
def toolkit_does_not_know_card(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """What is built on the spot meets a toolkit that does not know the card.

    What: for engines that are compiled where they run, and for whatever somebody builds
        here, the targets that nvcc of the newest toolkit can make against the compute
        capability of the card, or the target that the build names.
    Why: nvcc stops with "Unsupported gpu architecture" where the card's own target is
        asked for; otherwise the card runs on code for an older one.
    How to fix: a toolkit that knows the card.
    Silent when: the engine comes built, or the toolkit's targets are not in the matrix.
    Sources: `nvcc --list-gpu-code` of each toolkit (rows in the matrix).
    """
    found = engine(case, matrix)
    is_built = case.workload is not None and case.workload.building.is_known
    is_compiled = bool(applicable(matrix, found, "toolkit", settings(case, matrix)[0]))
    if not is_built and not is_compiled and not compiles_at_start(case):
        raise NotApplicable("it is not compiled where it runs")
    known, compiler, sources = _compiled(case, matrix)
    for capability, fact, subject in _wanted_targets(case, matrix):
        # A card that the toolkit has dropped is no matter of a newer toolkit.
        if capability not in known and capability > min(known):
            yield Fault(
                f"{compiler.fact} cannot compile for {capability.sm} ({fact.fact})",
                evidence=(fact, compiler),
                remedies=(install(case, "nvcc"),),
                sources=sources,
                subject=subject,
            )


def compiles_at_start(case: Case) -> bool:
    """Tell whether FlashInfer is stated by itself, without the packages of its compiled kernels."""
    parts = ("flashinfer-jit-cache", "flashinfer-cubin")
    stated = case.scope.package("flashinfer-python") is not None
    return stated and case.scope.package(*parts) is None


def _compiled(
    case: Case, matrix: Matrix
) -> tuple[list[ComputeCapability], Evidence, tuple[str, ...]]:
    """What nvcc makes: as it lists it itself, else as is known of the newest toolkit here."""
    told = next((note for note in case.facts.notes if _LISTED in note), "").partition(_LISTED)[2]
    listed = [CodeTarget.parse(text).capability for text in _TARGET.findall(told)]
    if listed:
        last = max(listed)
        # Of a list that is told in part everything up to its end is taken to be there.
        return (
            _up_to(last, matrix, listed),
            Evidence(f"nvcc, which ends at {last.sm},", "notes"),
            (),
        )
    newest = max(toolkits(case), key=lambda version: version.low)
    row = matrix.compiler(newest)
    if row is None or not row.targets:
        raise NotApplicable("no toolkit that the matrix knows")
    known = [CodeTarget.parse(target).capability for target in row.targets]
    return known, Evidence(f"nvcc {newest}", case.facts.nvidia.toolkits.at), row.source


def _up_to(
    last: ComputeCapability, matrix: Matrix, listed: list[ComputeCapability]
) -> list[ComputeCapability]:
    rows = (target for row in matrix.cuda.compilers for target in row.targets)
    every = {CodeTarget.parse(target).capability for target in rows}
    return sorted({c for c in every if c <= last} | set(listed))


def _wanted_targets(
    case: Case, matrix: Matrix
) -> Iterator[tuple[ComputeCapability, Evidence, str]]:
    """Those that the words about the build name, else those of the cards; and who says so."""
    work = case.workload
    words = (work.building.value or "") if work is not None else ""
    named = [CodeTarget.parse(text).capability for text in _TARGET.findall(words)]
    for capability in named:
        yield capability, Evidence(words[:120], "notes"), ""
    for device in () if named else case.need_vendor("nvidia"):
        yield cards.need_capability(device, matrix), cards.evidence(device, matrix), device.id


@rule("PYE304", cause="build-toolchain-missing", severity=Severity.ERROR)
def module_compiler_missing(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """The driver's kernel module is built on this host, and a compiler for it is missing.

    What: compilers that were looked for and not found on a host whose driver is built by
        DKMS, or whose driver is what is being installed.
    Why: the package's scriptlet hides the failed build; the installation looks complete
        and no module is loaded after the reboot.
    How to fix: install the compiler, then `dkms autoinstall`.
    Silent when: no compiler is reported missing, or the driver is not built here.
    Sources: NVIDIA/open-gpu-kernel-modules issue 805; DKMS manual.
    """
    work = case.workload
    builds = bool(case.facts.host.dkms.value) or (work is not None and work.engine == "driver")
    if not builds:
        raise NotApplicable("no module is built on this host")
    for tool in _MODULE_BUILD:
        if _is_missing(case, tool) or (tool == "make" and is_absent(case, "make")):
            yield Fault(
                f"the kernel module cannot be built: {tool} is not installed",
                evidence=(Evidence(f"{tool} is absent", case.facts.host.absent.at),),
                remedies=(
                    install(case, tool),
                    Remedy("build the module", ("sudo dkms autoinstall",), reboot=True),
                ),
            )


RULES = (
    run_time_compiler_missing,
    toolkit_does_not_know_card,
    module_compiler_missing,
)
