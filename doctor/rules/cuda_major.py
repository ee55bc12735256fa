"""Are the parts of one stack built for the same CUDA major."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from doctor.facts import REPORTED, Binary, Version
from doctor.findings import Evidence, Remedy
from doctor.matrix import Matrix
from doctor.rules import builds
from doctor.rules.builds import CudaBuild
from doctor.rules.decide import each, need_contents
from doctor.rules.engine import Case, Fault, NotApplicable, Rule, Severity, rule
from doctor.rules.software import admits, engine, shared_pin, software
from doctor.rules.source_tree import next_release

_SUFFIXED = re.compile(r"nvidia-([a-z-]+)-cu(\d{2})")
# Libraries whose packages carry the major in their name for every major, and that torch needs.
_TORCH_NEEDS = frozenset({"nccl", "cudnn", "cusparselt", "nvshmem"})
# Parts of engines that link the CUDA runtime of the major in their name.
_LINKED_TO_RUNTIME = frozenset({"cutlass-dsl-libs"})
# Libraries whose SONAME number is the CUDA major; others count by themselves.
_MAJOR_SONAME = re.compile(r"lib(?:cudart|cublas|cublasLt|nvrtc|nvJitLink)\.so\.(\d{2})(?:\.|$)")
_TORCH_FAMILY = ("torch", "torchvision", "torchaudio", "torchcodec", "triton")


def takes_system_cuda(matrix: Matrix, name: str, version: Version | None = None) -> bool:
    """Tell whether an engine or package takes CUDA's libraries from outside and brings none."""
    return any(m.claim.value == "system" for m in matrix.claims(name, "cuda-libraries", version))


def packaged_majors(case: Case, matrix: Matrix) -> set[int | None]:
    """CUDA majors of the library packages in the scope, and of torch."""
    names = (_SUFFIXED.fullmatch(p.name) for p in case.scope.packages.value or ())
    torch = builds.torch_build(case, matrix)
    return {int(m[2]) for m in names if m} | ({torch.cuda.major} if torch else set())


def major_of_soname(name: str) -> int | None:
    """The CUDA major in the name of a library: 12 of "libcudart.so.12"; else None."""
    match = _MAJOR_SONAME.match(name)
    return int(match[1]) if match else None


@rule("CUD131", cause="cuda-major-mismatch", severity=Severity.ERROR)
def libraries_of_two_majors(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """NVIDIA's library packages are of another CUDA major than torch.

    What: packages such as nvidia-nccl-cu12 against the CUDA major of the torch build.
    Why: torch loads its libraries by name and major. Those of another major are not
        found; packages of one library for two majors overwrite each other's files.
    How to fix: a clean environment from one index; packages are not removed by installing
        others beside them.
    Silent when: what torch needs is there in its own major and nothing is overwritten.
    Sources: METADATA and file lists of the torch and nvidia-* wheels.
    """
    need_contents(case)
    names = [_SUFFIXED.fullmatch(p.name) for p in case.scope.packages.known("scope.packages")]
    found = [(match[1], int(match[2])) for match in names if match]
    if not found:
        raise NotApplicable("no NVIDIA library package names a CUDA major")
    build = builds.torch_build(case, matrix) or builds.engine_build(case, matrix)
    if build is None or build.cuda.major is None:
        case.scope.torch.known("scope.torch.cuda")
        raise NotApplicable("no CUDA build of torch")
    own = {stem for stem, major in found if major == build.cuda.major}
    other = {stem: major for stem, major in found if major != build.cuda.major}
    wrong = sorted((set(other) & _TORCH_NEEDS) - own)
    doubled = sorted(set(other) & own)
    if wrong:
        yield _other_major(case, build, wrong, other)
    elif doubled:
        yield _doubled(case, build, doubled)
    elif alien := sorted((set(other) & _LINKED_TO_RUNTIME) - own):
        fault = _other_major(case, build, alien, other)
        yield replace(fault, severity=Severity.WARNING)


def _other_major(case: Case, build: CudaBuild, stems: list[str], majors: dict[str, int]) -> Fault:
    listed = ", ".join(f"nvidia-{stem}-cu{majors[stem]}" for stem in stems)
    return Fault(
        message=f"{build.label} is built for CUDA {build.cuda}, "
        f"and of the libraries it needs only {listed} are there",
        evidence=(build.evidence, Evidence(f"installed: {listed}", case.scope.packages.at)),
        remedies=(_clean(build),),
        sources=build.sources,
    )


def _doubled(case: Case, build: CudaBuild, stems: list[str]) -> Fault:
    listed = ", ".join(f"nvidia-{stem}" for stem in stems)
    return Fault(
        message=f"{listed} is installed for two CUDA majors: one overwrites files of the other",
        evidence=(build.evidence, Evidence(f"twice: {listed}", case.scope.packages.at)),
        remedies=(_clean(build),),
        severity=Severity.WARNING,
    )


def _clean(build: CudaBuild) -> Remedy:
    return Remedy(
        action=f"make a new environment and install everything for CUDA {build.cuda.major} there",
        commands=("uv venv --clear .venv", "uv pip install --torch-backend=auto ..."),
        role="python_env",
        risk="the present environment is replaced",
    )


@rule("CUD132", cause="cuda-major-mismatch", severity=Severity.ERROR)
def build_of_another_major(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """The engine or its kernels are built for another CUDA major than torch.

    What: the CUDA major of each package with CUDA code against that of torch: by what
        its binaries link to, its build label, or its default artefact.
    Why: an extension uses the CUDA libraries that torch brings. Of another major they
        are not there: "libcudart.so.12: cannot open shared object file".
    How to fix: the engine's build for torch's CUDA, or torch's for the engine's.
    Silent when: both are of one major; minors may differ. A warning where the build is only
        assumed and another is likely: in an image, beside a source tree, or where the project
        has a wheel of the release for just the CUDA of torch's label.
    Sources: NEEDED entries and METADATA of the wheels (rows in the matrix).
    """
    need_contents(case)
    torch = builds.torch_build(case, matrix)
    if torch is None:
        case.scope.torch.known("scope.torch.cuda")
        raise NotApplicable("no CUDA build of torch")
    checks = [partial(_linked, case, torch)]
    checks += [partial(_packaged, case, matrix, torch, name) for name in _with_code(case, matrix)]
    yield from each(checks)


def _linked(case: Case, torch: CudaBuild) -> Iterator[Fault]:
    """Binaries that need a library of another major, and find none."""
    for binary in case.scope.binaries.value or ():
        wrong = _unresolved_of_other_major(binary, torch)
        if wrong and binary.package not in _TORCH_FAMILY:
            fact = Evidence(f"{binary.path} needs {wrong}", binary.path)
            yield _mismatch(binary.package or binary.path, wrong, fact, torch, ())
            return


def _unresolved_of_other_major(binary: Binary, torch: CudaBuild) -> str:
    names = binary.unresolved or ()
    return next((n for n in names if major_of_soname(n) not in (None, torch.cuda.major)), "")


def _with_code(case: Case, matrix: Matrix) -> list[str]:
    """Packages of the scope that the matrix knows for their CUDA builds, torch's own left out."""
    known = matrix.engine_packages
    return [
        package.name
        for package in case.scope.packages.value or ()
        if package.name not in _TORCH_FAMILY
        and (package.name in known or package.name in case.scope.built_for)
        and known.get(package.name) != "tensorrt"
        and not takes_system_cuda(matrix, known.get(package.name, ""))
    ]


def _packaged(case: Case, matrix: Matrix, torch: CudaBuild, name: str) -> Iterator[Fault]:
    stated = builds.cuda_of_label(case.scope.built_for.get(name, ""))
    build = builds.package_build(case, matrix, name)
    cuda = stated or (build.cuda if build else None)
    if cuda is None or cuda.major == torch.cuda.major:
        return
    if (
        build is not None
        and build.assumed
        and torch.assumed
        and _is_pinned_away(matrix, build, torch)
    ):
        return  # the other major follows from the wrong torch, which its own rule names
    fact = (
        build.evidence if build else Evidence(f"{name} is built for {case.scope.built_for[name]}")
    )
    sources = build.sources if build else ()
    fault = _mismatch(build.label if build else name, f"CUDA {cuda}", fact, torch, sources)
    is_doubtful = (
        build is not None
        and build.assumed
        and (_may_be_any_build(case, matrix) or _comes_for(case, matrix, build, torch))
    )
    yield replace(fault, severity=Severity.WARNING) if is_doubtful else fault


def _is_pinned_away(matrix: Matrix, build: CudaBuild, torch: CudaBuild) -> bool:
    """Tell whether the package's release refuses this version of torch."""
    pin = shared_pin(software(matrix, build.package, build.version), "torch")
    return bool(pin) and torch.version is not None and admits(pin, torch.version) is False


def _comes_for(case: Case, matrix: Matrix, build: CudaBuild, torch: CudaBuild) -> bool:
    """Tell whether the project has a wheel of this release for just the CUDA of torch's label.

    Who reports a torch from that index may have taken the wheel that goes with it and not told
    its label; what is yet to be installed is the build that is named.
    """
    if case.scope.id != REPORTED:
        return False
    found = software(matrix, build.package, build.version)
    wheels = {wheel.cuda for row in found.rows for wheel in row.variants if not wheel.default}
    return not torch.assumed and torch.cuda.text in wheels


def _may_be_any_build(case: Case, matrix: Matrix) -> bool:
    """A version without a label tells the build only of what came from the default index.

    An image is made in one piece, and beside a source tree the kernels are picked by hand.
    """
    if case.scope.kind in ("container", "image"):
        return True
    try:
        return next_release(case, matrix, engine(case, matrix)) is not None
    except NotApplicable:
        return False


def _mismatch(
    name: str, needs: str, fact: Evidence, torch: CudaBuild, sources: tuple[str, ...]
) -> Fault:
    label = torch.cuda.text.replace(".", "")
    return Fault(
        message=f"{name} needs {needs}, and {torch.label} brings CUDA {torch.cuda}",
        evidence=(fact, torch.evidence),
        remedies=(
            Remedy(
                f"install the build of {name.partition(' ')[0]} for CUDA {torch.cuda.major} "
                f"(cu{label}, from the project's own index)",
                role="python_env",
            ),
            Remedy(
                "or install torch for the CUDA of the engine",
                ("uv pip install --reinstall torch --torch-backend=auto",),
                role="python_env",
            ),
        ),
        sources=(*sources, *torch.sources),
    )


RULES: tuple[Rule, ...] = (
    libraries_of_two_majors,
    build_of_another_major,
)
