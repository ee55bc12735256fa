"""For which CUDA runtime the packages of a scope were built, and how that is known."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from doctor.facts import Version
from doctor.findings import Evidence
from doctor.matrix import Matrix
from doctor.matrix.model import Release, Variant
from doctor.rules.engine import Case, NotApplicable
from doctor.rules.image_facts import image_cuda, known_image
from doctor.rules.settings import applicable, settings
from doctor.rules.software import Software, engine, software

_LABEL = re.compile(
    r"(?:^|[.+_-])cu(?:da)?[-_]?(\d{2})(?:\.?(\d)(?:\.?\d{1,2})?)?(?=$|[.+_-]|torch)", re.IGNORECASE
)
_OTHER_BACKENDS = re.compile(r"cpu|rocm|hip|xpu|metal|vulkan|musa|npu", re.IGNORECASE)


@dataclass(frozen=True)
class CudaBuild:
    """One package and the CUDA version it was built for.

    `assumed` marks what follows only from the default artefact of that version, `several` that
    other builds of it were as common, by which no error can be based on the default.
    """

    package: str
    version: Version | None
    cuda: Version
    evidence: Evidence
    assumed: bool = False
    sources: tuple[str, ...] = ()
    several: bool = False

    @property
    def label(self) -> str:
        """Package and version for messages."""
        return f"{self.package} {self.version}" if self.version else self.package


def cuda_of_label(label: str) -> Version | None:
    """CUDA version that a build label names: "cu128" gives 12.8, "cu12" any 12; else None."""
    match = _LABEL.search(label)
    return Version(f"{match[1]}.{match[2] or '*'}") if match else None


def is_without_cuda(label: str) -> bool:
    """Tell whether a build label names a build for something else than CUDA ("cpu", "rocm6.2")."""
    return bool(_OTHER_BACKENDS.search(label)) and cuda_of_label(label) is None


def runtime_build(case: Case, matrix: Matrix) -> CudaBuild | None:
    """The CUDA build that decides what driver is needed: torch's, else the engine's own.

    The engine's wheel links against the libraries that torch brings, so torch's runtime
    is the one that opens the driver. None if no CUDA build is known here.
    """
    return (
        torch_build(case, matrix)
        or engine_build(case, matrix)
        or binary_build(case)
        or image_build(case, matrix)
        or labelled_build(case)
        or local_build(case)
    )


def holds_no_cuda(case: Case) -> bool:
    """Tell whether the scope is known to hold a build without CUDA (CPU, ROCm, Vulkan)."""
    torch = case.scope.torch.value
    if torch is not None and (torch.cuda.is_absent or torch.hip.is_known):
        return True
    labels = [*case.scope.variants.values()]
    labels += [p.version.local for p in case.scope.packages.value or () if p.version]
    return any(is_without_cuda(label) for label in labels if label)


def torch_build(case: Case, matrix: Matrix) -> CudaBuild | None:
    """The CUDA build of torch in the scope; None for none, for a CPU build, or if unknown."""
    torch = case.scope.torch.value
    package = case.scope.package("torch")
    version = torch.version if torch else package.version if package else None
    if torch is not None and torch.cuda.is_known and torch.cuda.value is not None:
        fact = Evidence(f"torch {version} built for CUDA {torch.cuda.value}", torch.cuda.at)
        return CudaBuild("torch", version, torch.cuda.value, fact)
    if torch is not None and (torch.cuda.is_absent or torch.hip.is_known):
        return None
    if version is None:  # a report or a file may name the build, or its index, and no version
        return _stated(case, "torch", None)
    at = case.scope.torch.at or case.scope.packages.at
    return _stated(case, "torch", version) or _default(
        case, software(matrix, "torch", version, at), matrix
    )


def package_build(case: Case, matrix: Matrix, name: str) -> CudaBuild | None:
    """The CUDA build of an installed package, from its label, a statement or its default."""
    package = case.scope.package(name)
    if package is None or package.version is None:
        return None
    at = package.location or case.scope.packages.at
    found = software(matrix, name, package.version, at)
    return (
        _stated(case, name, package.version)
        or _of_image(case, found, matrix)
        or _default(case, found, matrix)
    )


def engine_build(case: Case, matrix: Matrix) -> CudaBuild | None:
    """The CUDA build of the engine, from its label, a statement or its default."""
    try:
        found = engine(case, matrix)
    except NotApplicable:
        return None
    if found.name == "torch":
        return None
    return (
        _stated(case, found.name, found.version)
        or _of_image(case, found, matrix)
        or _default(case, found, matrix)
    )


def _of_image(case: Case, found: Software, matrix: Matrix) -> CudaBuild | None:
    """The engine's build in an image of its project, whose tag tells the CUDA version."""
    row = known_image(case.scope, matrix)
    cuda = image_cuda(case.scope, matrix)
    if row is None or cuda is None or row.engine != found.name:
        return None
    return CudaBuild(found.name, found.version, cuda.cuda, cuda.evidence, sources=cuda.sources)


def binary_build(case: Case) -> CudaBuild | None:
    """The newest CUDA that a binary of the scope was compiled with or links against."""
    known = [(b.toolkit or b.cuda, b) for b in case.scope.binaries.value or ()]
    found = [(cuda, binary) for cuda, binary in known if cuda is not None]
    if not found:
        return None
    cuda, binary = max(found, key=lambda pair: pair[0].low)
    fact = Evidence(f"{binary.path} built for CUDA {cuda}", binary.path)
    return CudaBuild(binary.package or binary.path, None, cuda, fact)


def image_build(case: Case, matrix: Matrix) -> CudaBuild | None:
    """The CUDA version that the image of the scope states, or that is known of its tag."""
    found = image_cuda(case.scope, matrix)
    if found is None:
        return None
    name = case.scope.image.ref or case.scope.id
    return CudaBuild(name, None, found.cuda, found.evidence, sources=found.sources)


def labelled_build(case: Case) -> CudaBuild | None:
    """An extension whose version names the CUDA that it is built for, and the torch beside it."""
    for package in case.scope.packages.value or ():
        label = package.version.local if package.version is not None else ""
        cuda = cuda_of_label(label.partition(".torch")[0])
        if ".torch" in label and cuda is not None:
            fact = Evidence(f"{package.name} {package.version}", case.scope.packages.at)
            return CudaBuild(package.name, package.version, cuda, fact)
    return None


def local_build(case: Case) -> CudaBuild | None:
    """What somebody compiled here: its CUDA is that of the toolkit that compiles."""
    work, toolkits = case.workload, case.facts.nvidia.toolkits
    if work is None or not work.building.is_known:
        return None
    found = [t.version for t in toolkits.value or () if t.version is not None and t.nvcc]
    if len(found) != 1:
        return None
    fact = Evidence(f"compiled with CUDA {found[0]}", toolkits.at)
    return CudaBuild(work.engine, None, found[0], fact, assumed=True, several=True)


def _stated(case: Case, name: str, version: Version | None) -> CudaBuild | None:
    """What the version's own label or the report says about the build."""
    variant = case.scope.variants.get(name, "")
    label = version.local if version else ""
    for text, at in ((variant, f"build variant of {name}"), (label, f"version of {name}")):
        cuda = cuda_of_label(text)
        if cuda is not None:
            shown = f"{name} {version}" if version else f"{name} ({text})"
            return CudaBuild(name, version, cuda, Evidence(f"{shown} is a {text} build", at))
    return None


def _default(case: Case, found: Software, matrix: Matrix) -> CudaBuild | None:
    """What the default artefact of that version is built for, where the matrix knows it.

    Only a released version has one: a build with another label, a nightly or a version
    stated loosely may be made for any CUDA.
    """
    version = found.version
    if version is None or version.local or case.scope.variants.get(found.name):
        return None
    text, sources, several = _default_cuda(case, found, matrix)
    cuda = as_cuda(text)
    if cuda is None:
        return None
    fact = Evidence(f"{found.label}: its default build is for CUDA {cuda}", found.at)
    return CudaBuild(
        found.name, version, cuda, fact, assumed=True, sources=sources, several=several
    )


def _default_cuda(case: Case, found: Software, matrix: Matrix) -> tuple[str, tuple[str, ...], bool]:
    """CUDA of the default artefact, "" if unknown; sources; whether others were as common."""
    plain = _is_released(found) or _is_plain_release(found)
    if found.rows and plain:
        rows = _of_minor(found)
        text = _shared({row_cuda(row, case.facts.host.arch.value) for row in rows})
        if text:
            return text, tuple(found.rows[0].source), False
    found = replace(found, name=matrix.canonical(found.name) or found.name)
    for setting in settings(case, matrix)[:1] if plain else ():
        for match in applicable(matrix, found, "cuda", setting):
            if not match.extrapolated:
                several = match.claim.data.get("builds") == "several"
                return match.claim.value or "", tuple(match.claim.source), several
    return "", (), False


def _of_minor(found: Software) -> list[Release]:
    """Rows of the same two first numbers, between which CUDA rarely changes; all if none has."""
    release = found.version.release[:2] if found.version else ()
    near = [row for row in found.rows if Version(row.version).release[:2] == release]
    return near or list(found.rows)


def _shared(texts: set[str | None]) -> str:
    """The CUDA version that rows share, else the major that they share, else ""."""
    if len(texts) == 1:
        return texts.pop() or ""
    majors = {(text or "").partition(".")[0] for text in texts}
    return majors.pop() if len(majors) == 1 else ""


def _is_released(found: Software) -> bool:
    """Tell whether the version is one that was published, as far as the matrix lists them."""
    version = found.version
    if version is None or not version.is_exact:
        # Torch is often stated short where its build label was left out.
        return version is not None and found.name != "torch"
    return not found.rows or any(row.version == version.public for row in found.rows)


def _is_plain_release(found: Software) -> bool:
    """A final version between releases that are listed: the list of old ones has gaps."""
    version = found.version
    has_several = found.name == "torch" or any(row.variants for row in found.rows)
    is_early = version is not None and version.is_prerelease and has_several
    if version is None or not version.is_exact or is_early:
        return False
    return found.is_public_build and not found.beyond and len(found.rows) > 1


def row_cuda(row: Release, arch: str | None) -> str | None:
    """CUDA of the default artefact for an architecture; None for one without CUDA."""
    own = [v for v in row.variants if v.default and arch is not None and arch in v.archs]
    return own[0].cuda if own else row.cuda


def as_cuda(text: str) -> Version | None:
    """Read the CUDA version of a matrix row; "12" means any of that major."""
    exact = Version.maybe(text)
    if exact is None or len(exact.release) != 1 or not exact.is_exact:
        return exact
    return Version(f"{exact.major}.*")


def cuda_variants(release: Release) -> list[tuple[Variant, Version]]:
    """Builds of a release with the CUDA version of each, newest first."""
    known = [(v, Version.maybe(v.cuda)) for v in release.variants]
    fitting = [(v, cuda) for v, cuda in known if cuda is not None]
    return sorted(fitting, key=lambda pair: pair[1].low, reverse=True)


def release_of(matrix: Matrix, build: CudaBuild) -> Release | None:
    """The release that a build is of, or None."""
    domain = matrix.engine_packages.get(build.package, build.package)
    return matrix.release(domain, build.version) if build.version else None
