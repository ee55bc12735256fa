"""Engines that take CUDA's libraries from the system: is their major there?"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from doctor.facts import Version
from doctor.findings import Evidence, Remedy
from doctor.matrix import Matrix
from doctor.matrix.model import Release
from doctor.rules import builds
from doctor.rules.builds import CudaBuild
from doctor.rules.cuda_level import two_parts
from doctor.rules.cuda_major import packaged_majors, takes_system_cuda
from doctor.rules.driver_state import DRIVER_DOMAIN
from doctor.rules.engine import Case, Fault, NotApplicable, Rule, Severity, rule
from doctor.rules.image_facts import ImageCuda, image_cuda
from doctor.rules.settings import applicable, settings
from doctor.rules.software import Software, engine, engine_name, software

# The library, and what brings it: their CUDA is that of the programs on them.
_CTRANSLATE2 = ("ctranslate2", "faster-whisper")


@rule("CUD133", cause="cuda-major-mismatch", severity=Severity.ERROR)
def system_cuda_of_another_major(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """The engine takes CUDA's libraries from the system, where another major is installed.

    What: the CUDA major of the engine's build against the toolkits of the host and the
        library packages of the environment; of a program that is not listed, those of the
        ONNX Runtime that is stated beside it.
    Why: such a wheel holds no CUDA libraries. It asks for those of its major by name,
        does not find them, and falls back to the CPU or fails.
    How to fix: the engine's build for the installed major, or the libraries of its major
        from packages.
    Silent when: the libraries of its major are there, or no toolkit, torch or image tells which
        CUDA is here. A warning where torch or the image alone does, or where no version is
        stated and no listed release with a GPU here is of an installed major.
    Sources: ONNX Runtime documentation, CUDA execution provider; libraries of the wheels of
        CTranslate2; TensorFlow's tested build configurations (rows in the matrix).
    """
    beside = onnxruntime_beside(case, matrix)
    found = beside or engine(case, matrix)
    own = not takes_system_cuda(matrix, found.name, found.version)
    if own or _uses_no_card(case, matrix, found):
        raise NotApplicable(f"{found.name} brings its own CUDA libraries, or uses none here")
    build = _gpu_build(case, matrix, found)
    toolkits = case.facts.nvidia.toolkits
    if build is None and (found.version is not None or not toolkits.value):
        raise found.unknown()
    torch, image = builds.torch_build(case, matrix), image_cuda(case.scope, matrix)
    if build is not None and not toolkits.is_known:
        if torch is not None:
            yield from _beside_torch(case, matrix, build, torch)
            return
        if image is not None:
            yield from _in_image(case, matrix, build, image)
            return
    here = [t.version for t in toolkits.known("nvidia.toolkits") if t.version is not None]
    if build is None:
        yield from _no_release_fits(case, matrix, found, here)
        return
    majors = {v.major for v in here} | packaged_majors(case, matrix)
    if not here or (build.cuda.major in majors and not _is_other_minor(matrix, build, here)):
        return
    have = ", ".join(f"CUDA {version}" for version in here)
    fault = _other_major(build, f"here is {have}", Evidence(f"toolkits: {have}", toolkits.at))
    yield replace(fault, severity=Severity.WARNING) if beside else fault


def _uses_no_card(case: Case, matrix: Matrix, found: Software) -> bool:
    """Its wheels for this processor compute on the CPU, which another rule says."""
    arch = case.facts.host.arch.value or ""
    rows = matrix.claims(found.name, "platform", found.version, arch) if arch else []
    return any(match.claim.value == "unsupported" for match in rows)


def _is_other_minor(matrix: Matrix, build: CudaBuild, here: list[Version]) -> bool:
    """Libraries of old majors carry the minor in their names, and only other ones are here."""
    by_minor = matrix.claims(DRIVER_DOMAIN, "cuda-library-names", key=str(build.cuda.major))
    known = [two_parts(v) for v in (build.cuda, *here) if len(v.release) > 1]
    return any(by_minor) and len(known) == len(here) + 1 and known[0] not in known[1:]


def _beside_torch(
    case: Case, matrix: Matrix, build: CudaBuild, torch: CudaBuild
) -> Iterator[Fault]:
    """No toolkit is told of, and the libraries that torch brings are of another major."""
    if build.cuda.major not in packaged_majors(case, matrix):
        fault = _other_major(build, f"{torch.label} brings CUDA {torch.cuda}", torch.evidence)
        yield replace(fault, severity=Severity.WARNING)


def _in_image(case: Case, matrix: Matrix, build: CudaBuild, image: ImageCuda) -> Iterator[Fault]:
    """Inside an image for another major, whose libraries are those that are found."""
    if build.cuda.major not in {image.cuda.major} | packaged_majors(case, matrix):
        fault = _other_major(build, f"the image is for CUDA {image.cuda}", image.evidence)
        yield replace(fault, severity=Severity.WARNING)


def _other_major(build: CudaBuild, have: str, fact: Evidence) -> Fault:
    is_minor = f"CUDA {build.cuda.major}." in have
    return Fault(
        message=f"{build.label} needs the libraries of CUDA "
        f"{build.cuda if is_minor else build.cuda.major}, and {have}",
        evidence=(build.evidence, fact),
        remedies=(
            Remedy("install the build of the engine that is made for the installed CUDA major"),
            Remedy(
                f"or bring the libraries of CUDA {build.cuda.major} into the environment",
                (f"pip install nvidia-{{cublas,cudnn,curand,cufft}}-cu{build.cuda.major}",),
                role="python_env",
            ),
        ),
        sources=build.sources,
    )


def onnxruntime_beside(case: Case, matrix: Matrix) -> Software | None:
    """The GPU package of ONNX Runtime in a program that the matrix does not list, or in torch's."""
    package = case.scope.package("onnxruntime-gpu")
    name = engine_name(case, matrix)
    if package is None or package.version is None:
        return None
    if name != "torch" and matrix.canonical(name) is not None:
        return None
    at = package.location or case.scope.packages.at
    return software(matrix, "onnxruntime", package.version, at)


def _gpu_build(case: Case, matrix: Matrix, found: Software) -> CudaBuild | None:
    if found.name != "onnxruntime":
        library = (builds.package_build(case, matrix, name) for name in _CTRANSLATE2)
        return next(filter(None, library), None) or builds.engine_build(case, matrix)
    gpu = case.scope.package("onnxruntime-gpu") or case.scope.package("onnxruntime-genai-cuda")
    if gpu is None:
        raise NotApplicable("the GPU package is not installed")
    return builds.package_build(case, matrix, gpu.name)


def _no_release_fits(
    case: Case, matrix: Matrix, found: Software, toolkits: list[Version]
) -> Iterator[Fault]:
    """No version is stated, and no listed release with a GPU here is of an installed major."""
    rows = [row for row in found.rows if row.cuda]
    here = [row for row in rows if not _is_without_gpu(case, matrix, found, row)]
    built = {cuda.major or 0 for row in here if (cuda := builds.as_cuda(row.cuda or ""))}
    have = {toolkit.major or 0 for toolkit in toolkits}
    if not built or not have or (have | packaged_majors(case, matrix)) & built:
        return
    listed = ", ".join(f"CUDA {major}" for major in sorted(built))
    shown = ", ".join(f"CUDA {toolkit}" for toolkit in toolkits)
    yield Fault(
        message=f"no listed release of {found.name} with a GPU here is built for {shown}: "
        f"they are for {listed}",
        evidence=(Evidence(f"toolkits: {shown}", case.facts.nvidia.toolkits.at), found.evidence),
        remedies=(Remedy(f"install the libraries of CUDA {max(built)} beside"),),
        sources=here[0].source,
        severity=Severity.WARNING,
    )


def _is_without_gpu(case: Case, matrix: Matrix, found: Software, row: Release) -> bool:
    release = software(matrix, found.name, Version(row.version))
    claims = applicable(matrix, release, "platform", settings(case, matrix)[0])
    return any(match.claim.value == "cpu-only" for match in claims)


@rule("CUD115", cause="cuda-lib-missing", severity=Severity.WARNING)
def image_without_cuda(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """The engine takes CUDA's libraries from the system, and its image is a bare one.

    What: the image, where it is one of a distribution or of Python that holds no CUDA, and
        the packages that are stated, for engines whose wheels bring no CUDA libraries.
    Why: the driver brings libcuda alone; libcudart, libcublas and libcudnn come from a
        toolkit, an image of CUDA, or packages. Without them such a build goes on with the CPU.
    How to fix: the libraries as packages, or an image of CUDA with cuDNN.
    Silent when: a package brings libraries of CUDA, torch is there, a toolkit is stated, or the
        image is another.
    Sources: documentation and wheels of the engines (rows in the matrix).
    """
    found = onnxruntime_beside(case, matrix) or engine(case, matrix)
    if not takes_system_cuda(matrix, found.name, found.version):
        raise NotApplicable(f"{found.name} brings its own CUDA libraries")
    build = _gpu_build(case, matrix, found)
    texts = (case.scope.runtime.value or "", *case.facts.notes)
    said = next(filter(None, map(_HOLDS_NONE.search, texts)), None)
    if said is not None and not packaged_majors(case, matrix):
        yield _told_without(found, build, said[0])
        return
    if build is None or not _BARE.fullmatch(case.scope.image.ref):
        raise NotApplicable("no image that is known to hold no CUDA")
    case.need_vendor("nvidia")
    if packaged_majors(case, matrix) or case.facts.nvidia.toolkits.value:
        return
    yield Fault(
        f"{build.label} needs the libraries of CUDA {build.cuda.major}, and the image "
        f"{case.scope.image.ref} holds none",
        evidence=(build.evidence, Evidence(case.scope.image.ref, "image")),
        remedies=(
            Remedy(
                f"bring the libraries of CUDA {build.cuda.major} into the environment",
                (f"pip install nvidia-{{cublas,cudnn,curand,cufft}}-cu{build.cuda.major}",),
            ),
            Remedy("or start from an image of nvidia/cuda with cuDNN"),
        ),
        sources=build.sources,
    )


def _told_without(found: Software, build: CudaBuild | None, said: str) -> Fault:
    wanted = f"those of CUDA {build.cuda.major}" if build is not None else "those of its build"
    return Fault(
        f"{found.name} takes CUDA's libraries from the system, and none are said to be there",
        evidence=(found.evidence, Evidence(said, "notes")),
        remedies=(Remedy(f"take the variant of the image that holds CUDA, or add {wanted}"),),
        sources=build.sources if build is not None else (),
    )


# Somebody says that an image or a bundle brings no libraries of CUDA.
_HOLDS_NONE = re.compile(
    r"\b(?:image|container|package|bundle|archive|installer|build)\b[^.;\n]{0,30}\b(?:"
    r"(?:does|did)(?:n't| not) (?:include|hold|contain|have|bring|ship)|has no|holds no|without|"
    r"lacks|brings no|ships no|comes without)\b(?: the| any)?(?: nvidia)?"
    r" (?:cuda|cublas|cudnn)\b(?! (?:driver|device|gpu))",
    re.IGNORECASE,
)
# Images of distributions and languages: none of them holds a part of CUDA.
_BARE = re.compile(
    r"(?:docker\.io/)?(?:library/)?(?:python|ubuntu|debian|rockylinux|almalinux|fedora|"
    r"alpine)(?::[\w.-]+)?"
)


@rule("CUD135", cause="cuda-major-mismatch", severity=Severity.WARNING)
def host_of_an_older_major(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """All that is known of the host's CUDA is a toolkit older than the engine is built for.

    What: the CUDA major of the engine's build, or of the oldest build where no version is
        stated, against the toolkits, where neither the driver nor torch is known.
    Why: the wheel brings its runtime and takes nothing from an older toolkit; a host of which
        a person names that toolkit mostly has a driver and packages of its line.
    How to fix: the engine's build for the CUDA line of the host, if there is one; else a
        driver that offers the engine's.
    Silent when: the driver, what it offers, or torch is known: then those decide; it runs from
        an image; or the engine takes CUDA from the system.
    Sources: METADATA and libraries of the wheels (rows in the matrix).
    """
    found = engine(case, matrix)
    nvidia, scope = case.facts.nvidia, case.scope
    decided = nvidia.driver.value or nvidia.cuda_driver_api.value or scope.package("torch")
    if decided or scope.torch.value or "torch" in scope.variants or scope.image.ref:
        raise NotApplicable("the driver or torch decides, or an image")
    build = builds.engine_build(case, matrix) or _oldest_build(matrix, found)
    if build is None or takes_system_cuda(matrix, found.name, found.version):
        raise NotApplicable("no build that brings its CUDA")
    toolkits = nvidia.toolkits.known("nvidia.toolkits")
    here = [t.version for t in toolkits if t.version is not None]
    if here and all((v.major or 0) < (build.cuda.major or 0) for v in here):
        shown = ", ".join(f"CUDA {version}" for version in here)
        yield Fault(
            message=f"{build.label} is built for CUDA {build.cuda}, and here is {shown}",
            evidence=(build.evidence, Evidence(f"toolkits: {shown}", nvidia.toolkits.at)),
            remedies=(Remedy(f"a build of {found.name} for {shown}, or a newer driver"),),
            sources=build.sources,
        )


def _oldest_build(matrix: Matrix, found: Software) -> CudaBuild | None:
    """What all releases need at least, where no version is stated and the first is known."""
    claims = [match.claim for match in matrix.claims(found.name, "cuda")]
    first = min(claims, key=lambda claim: Version(claim.value).low, default=None)
    if found.version is not None or first is None or first.since:
        return None
    cuda = Version(first.value)
    listed = [Version(v.cuda).major or 0 for row in found.rows for v in row.variants if v.cuda]
    if any(major < (cuda.major or 0) for major in listed):
        return None
    return CudaBuild(found.name, None, cuda, found.evidence, assumed=True, sources=first.source)


RULES: tuple[Rule, ...] = (image_without_cuda, system_cuda_of_another_major, host_of_an_older_major)
