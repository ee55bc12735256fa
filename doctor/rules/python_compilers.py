"""Is nvcc there where something is compiled, and does it take the C++ compiler beside it?"""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.findings import Evidence, Remedy
from doctor.matrix import Matrix
from doctor.rules.driver_choice import family, package_commands
from doctor.rules.engine import Case, Fault, NotApplicable, Rule, Severity, rule
from doctor.rules.host_libc import distribution
from doctor.rules.python_toolchain import compiles_at_start, toolkits
from doctor.rules.software import engine

_COMPILERS = ("gcc", "g++", "gcc-c++")
_MAJOR = re.compile(r"(?:\d{1,2}:)?(\d{1,2})(?:\.|$|-|~)")
_TOLD = re.compile(
    r"\b(?:gcc|g\+\+)(?:[ -]version)?[ -](\d{1,2})(?:\.\d{1,2}){0,2}\b", re.IGNORECASE
)
_OF_OTHERS = re.compile(
    r"\b(?:at most|up to|max|older|newer|needs?|requires?|takes?|supports?|not|without|no|tried|"
    r"helps?|it builds|succeeds?|works?|fixed|ccbin|cudahostcxx)\b",
    re.IGNORECASE,
)
# Their own nvcc calls a compiler that it takes, whichever is the system's.
_MOSTLY_BUILT = ("llama.cpp", "llama-cpp-python", "flash-attn", "apex", "deepspeed")
_OWN_TOOLKIT = ("ubuntu", "debian")


@rule("PYE306", cause="build-toolchain-missing", severity=Severity.WARNING)
def compiler_too_new_for_nvcc(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """Something is compiled here, and the system's gcc is newer than nvcc takes.

    What: the major of gcc that is told or found, else that of the distribution, against the
        newest that nvcc of the toolkit takes.
    Why: nvcc lets the host's compiler do half of the work, and its headers know that compiler
        up to a version: "#error -- unsupported GNU version! gcc versions later than ... are
        not supported!".
    How to fix: install an older g++ beside it and name it in CUDAHOSTCXX and NVCC_CCBIN, or
        take a newer toolkit.
    Silent when: nothing is compiled here, CUDAHOSTCXX or NVCC_CCBIN names another compiler, or
        only a distribution is known that has a toolkit of its own (Debian, Ubuntu).
    Sources: crt/host_config.h of each toolkit; installation guides (rows in the matrix).
    """
    if case.workload is None or not (case.workload.building.is_known or _is_own_build(case)):
        raise NotApplicable("nothing is compiled here")
    env = {**(case.scope.env.value or {}), **(case.workload.env.value or {})}
    if env.get("CUDAHOSTCXX") or env.get("NVCC_CCBIN"):
        raise NotApplicable("another compiler is named")
    newest = max(toolkits(case), key=lambda version: version.low)
    row = matrix.compiler(newest)
    if row is None or row.max_gcc is None:
        raise NotApplicable("no toolkit whose host compilers the matrix knows")
    gcc, fact = _compiler(case, matrix)
    if gcc > row.max_gcc:
        yield Fault(
            f"nvcc {newest} takes gcc up to {row.max_gcc}, and {fact.fact} is here",
            evidence=(fact, Evidence(f"CUDA toolkit {newest}", case.facts.nvidia.toolkits.at)),
            remedies=(_older(case, row.max_gcc),),
            sources=row.source,
        )


def _is_own_build(case: Case) -> bool:
    """Who states gcc and a toolkit for an engine that people compile is compiling it."""
    stated = any(p.name in _COMPILERS for p in case.facts.host.packages.value or ())
    return stated and case.workload is not None and case.workload.engine in _MOSTLY_BUILT


def _compiler(case: Case, matrix: Matrix) -> tuple[int, Evidence]:
    packages = case.facts.host.packages
    found = [p for p in packages.value or () if p.name in _COMPILERS]
    majors = [(m, p) for p in found if (m := _MAJOR.match(p.version))]
    if majors:
        match, package = majors[0]
        return int(match[1]), Evidence(f"{package.name} {package.version}", packages.at)
    notes = (note for note in case.facts.notes if not _OF_OTHERS.search(note))
    told = next(filter(None, map(_TOLD.search, notes)), None)
    if told is not None:
        return int(told[1]), Evidence(told[0], "notes")
    row = distribution(case, matrix)
    if row is None or not row.gcc or family(case.facts.host.os.value) in _OWN_TOOLKIT:
        packages.known("version of gcc")
        raise NotApplicable("no gcc is told of")
    return int(row.gcc.partition(".")[0]), Evidence(f"gcc {row.gcc} of {row.id}", row.source[0])


def _older(case: Case, major: int) -> Remedy:
    names: dict[str, tuple[str, ...]] = {
        "debian": (f"g++-{major}",),
        "rhel": (f"gcc-toolset-{major}",),
    }
    return Remedy(
        f"install g++ {major} beside it, and name it to nvcc",
        (
            *package_commands(case.facts.host.os.value, names),
            f"export CUDAHOSTCXX=g++-{major} NVCC_CCBIN=g++-{major}",
        ),
    )


@rule("PYE307", cause="build-toolchain-missing", severity=Severity.WARNING)
def image_without_nvcc(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """CUDA code is compiled in an image that holds no compiler for it.

    What: the tag of the image, or of the one it is made from as is told, against the kinds of
        images that have no nvcc, where somebody tells of a build or FlashInfer is there without
        its compiled kernels.
    Why: images for running are made small: "CUDA_HOME environment variable is not set", "nvcc
        was not found".
    How to fix: the image's kind for development, at least for the stage that builds; or a
        ready wheel.
    Silent when: a toolkit is told of, or what is built is not known to hold CUDA code.
    Sources: overview of the images (claims in the matrix).
    """
    words = (case.workload.building.value or "") if case.workload is not None else ""
    is_built = bool(words) and _is_cuda_code(case, matrix, words)
    if not is_built and not compiles_at_start(case):
        raise NotApplicable("no CUDA code is compiled here")
    if case.facts.nvidia.toolkits.value:
        raise NotApplicable("a toolkit is told of")
    what = words[:120] if is_built else "FlashInfer without its compiled kernels"
    for match in matrix.claims("torch", "image-without-nvcc"):
        claim = match.claim
        ref = next((r for r in _images(case, claim.key) if _is_for_running(r, claim.value)), "")
        if ref:
            yield Fault(
                f"{ref} has no nvcc, and CUDA code is compiled in it: {claim.text}",
                evidence=(Evidence(ref, "image"), Evidence(what, "notes")),
                remedies=(Remedy("build in the image whose tag has devel in that place"),),
                sources=claim.source,
            )
            return


def _images(case: Case, repository: str) -> Iterator[str]:
    """The image, and those of this repository that the notes name, as what it is made from."""
    ref = case.scope.image.ref.partition("@")[0]
    if ref.rpartition(":")[0].endswith(repository):
        yield ref
    named = re.compile(rf"(?<![\w.-]){re.escape(repository)}:[\w.-]{{3,80}}")
    told = (*case.facts.notes, case.scope.runtime.value or "")
    yield from (found for text in told for found in named.findall(text))


def _is_for_running(ref: str, kinds: str) -> bool:
    return bool(set(kinds.split("|")) & set(re.split(r"[-_.]", ref.rpartition(":")[2])))


def _is_cuda_code(case: Case, matrix: Matrix, words: str) -> bool:
    if _CUDA_CODE.search(words):
        return True
    found = engine(case, matrix)
    compiled = (
        *matrix.claims(found.name, "toolkit"),
        *matrix.claims(found.name, "artefact", None, "sdist"),
    )
    return bool(compiled) or any("torch" in row.pins for row in found.rows)


_CUDA_CODE = re.compile(
    r"cuda|nvcc|apex|auto-?awq|auto-?gptq|causal|deepspeed|detectron2|exllama|flash|mamba|mmcv|"
    r"pytorch3d|sage|sgl-kernel|vllm|xformers",
    re.IGNORECASE,
)

RULES: tuple[Rule, ...] = (compiler_too_new_for_nvcc, image_without_nvcc)
