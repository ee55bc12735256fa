"""Is the CUDA compiler that would build an extension of the major of torch?"""

from __future__ import annotations

from collections.abc import Iterator

from doctor.facts import Version
from doctor.findings import Evidence, Remedy
from doctor.matrix import Matrix
from doctor.rules import builds
from doctor.rules.brought import torch_of_pin
from doctor.rules.builds import CudaBuild
from doctor.rules.engine import Case, Fault, NotApplicable, Rule, Severity, rule
from doctor.rules.image_facts import image_cuda
from doctor.rules.software import engine

_DEVELOPMENT = "-devel"  # tags of images that hold the compiler
# Their kernels are compiled at first use, by the compiler that is here.
_COMPILES_WHEN_USED = ("deepspeed",)
_TAKES_WHAT_IS_HERE = ("--no-build-isolation", "setup.py", "use_existing_torch")


@rule("CUD134", cause="cuda-major-mismatch", severity=Severity.ERROR)
def compiler_of_another_major(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """The CUDA compiler that would be used is of another major than torch.

    What: toolkits with nvcc against the CUDA major of torch; where an engine is built that pins
        its torch, of the torch that the isolated build fetches.
    Why: torch refuses to build extensions with another major. Wheels need no compiler, so
        there it is a note: harmless until something is compiled. A warning where a report
        names the two CUDA versions and no card and no driver, for that is what it is about, and
        beside DeepSpeed, which compiles its kernels at first use.
    How to fix: before building, point CUDA_HOME to a toolkit of torch's major.
    Silent when: a toolkit of torch's major is there, or none at all.
    Sources: torch.utils.cpp_extension, version check of the compiler.
    """
    torch = _fetched(case, matrix) or builds.torch_build(case, matrix)
    if torch is None:
        raise NotApplicable("no CUDA build of torch")
    compilers = _compilers(case, matrix)
    if compilers and all(version.major != torch.cuda.major for version in compilers):
        have = ", ".join(map(str, compilers))
        yield Fault(
            message=f"nvcc here is of CUDA {have}, and {torch.label} is for CUDA {torch.cuda}: "
            "building an extension would fail",
            evidence=(torch.evidence, Evidence(f"nvcc {have}", case.facts.nvidia.toolkits.at)),
            remedies=(
                Remedy(
                    f"point CUDA_HOME to a toolkit of CUDA {torch.cuda.major}, or take a torch "
                    f"for CUDA {compilers[0].major}",
                    (f"export CUDA_HOME=/usr/local/cuda-{torch.cuda.major}",),
                ),
            ),
            severity=_if_built(case, matrix),
        )


def _compilers(case: Case, matrix: Matrix) -> list[Version]:
    """Versions of nvcc here; where an image for development builds, that of its CUDA."""
    toolkits = case.facts.nvidia.toolkits
    image = image_cuda(case.scope, matrix)
    if not toolkits.is_known and image is not None and _DEVELOPMENT in case.scope.image.ref:
        return [image.cuda]
    known = toolkits.known("nvidia.toolkits")
    return [t.version for t in known if t.nvcc and t.version is not None]


def _fetched(case: Case, matrix: Matrix) -> CudaBuild | None:
    """The torch that the build of an engine fetches, unless it is told to take the one here."""
    words = (case.workload.building.value or "") if case.workload is not None else ""
    if not words or any(word in words for word in _TAKES_WHAT_IS_HERE):
        return None
    try:
        return torch_of_pin(case, matrix, engine(case, matrix), lowest=True)
    except NotApplicable:
        return None


def _if_built(case: Case, matrix: Matrix) -> Severity | None:
    """An error where it is compiled here, a warning where that is likely, else a note."""
    work = case.workload
    if work is not None and work.building.is_known:
        return None
    if _is_what_is_told(case):
        return Severity.WARNING
    try:
        found = engine(case, matrix)
    except NotApplicable:
        return Severity.INFO
    if found.name in _COMPILES_WHEN_USED or case.scope.package(*_COMPILES_WHEN_USED):
        return Severity.WARNING
    has_source_only = any(True for _ in matrix.claims(found.name, "artefact", None, "sdist"))
    return Severity.WARNING if has_source_only and found.version is None else Severity.INFO


def _is_what_is_told(case: Case) -> bool:
    """A person tells the CUDA that torch is built for and the toolkit, and of no card or driver."""
    nvidia = case.facts.nvidia
    offers = nvidia.driver.value or nvidia.cuda_driver_api.value
    return "torch" in case.scope.variants and not (offers or case.facts.devices.value)


RULES: tuple[Rule, ...] = (compiler_of_another_major,)
