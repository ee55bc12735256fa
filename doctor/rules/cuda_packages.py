"""Are the libraries that an engine's package asks for there, in the line that it was built for?"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from doctor.facts import Missing, MissingFact, Package, Version
from doctor.findings import Evidence, Remedy
from doctor.matrix import ClaimMatch, Matrix, capability_matches
from doctor.rules import builds
from doctor.rules.cuda_level import two_parts
from doctor.rules.cuda_system import onnxruntime_beside
from doctor.rules.engine import Case, Fault, NotApplicable, Rule, Severity, rule
from doctor.rules.libc_floors import is_built_elsewhere
from doctor.rules.model_facts import environment
from doctor.rules.settings import covering
from doctor.rules.software import Software, admits, engine, installed, torch_version

_CUDNN = re.compile(r"(?:nvidia-cudnn(?:-cu\d{2})?|cudnn)")
_OVERRIDE = "BNB_CUDA_VERSION"
_BESIDE_TORCH = ("ctranslate2", "faster-whisper")  # they find the cuDNN of a torch beside them


@rule("CUD112", cause="cuda-lib-missing", severity=Severity.ERROR)
def cudnn_of_another_major(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """The cuDNN that is here is of another major than the engine's build asks for.

    What: the cuDNN packages that are stated or installed, else that which torch brings,
        against the range that the engine's project names for its release.
    Why: the name of the library holds the major: "libcudnn.so.9: cannot open shared object
        file", and the engine falls back to the CPU.
    How to fix: cuDNN of the major named, or a release of the engine for the one that is here.
    Silent when: a cuDNN of that range is among them, the engine's CPU package is used, a note
        says on which system somebody built it, or the libraries themselves were read: then the
        rule on libraries not found judges.
    Sources: ONNX Runtime documentation, CUDA execution provider; libraries of the wheels of
        CTranslate2 (claims in the matrix).
    """
    library = installed(case, matrix, "ctranslate2")
    inside = None if library else onnxruntime_beside(case, matrix)
    found = library or inside or engine(case, matrix)
    claims = covering(matrix, found, "requires-package", "cudnn")
    if not claims:
        raise NotApplicable(f"no cuDNN is known that {found.name} takes from outside")
    if case.scope.binaries.is_known:
        raise NotApplicable("the libraries themselves were read")
    if is_built_elsewhere(case):
        raise NotApplicable("it is a build of somebody else, with libraries of its own choice")
    if found.name == "onnxruntime" and case.scope.lacks("onnxruntime-gpu"):
        raise NotApplicable("the GPU package is not installed")
    here = [p for p in case.scope.packages.known("packages") if _CUDNN.fullmatch(p.name)]
    known = [p for p in here if p.version is not None]
    beside = not known and (inside is not None or found.name in _BESIDE_TORCH)
    brought = _cudnn_of_torch(case, matrix) if beside else ()
    if not known and not brought:
        raise MissingFact("version of cuDNN", Missing.NOT_STATED)
    for match in claims:
        if all(
            admits(match.claim.value, p.version) is False for p in known or brought if p.version
        ):
            fault = _other_cudnn(found, (*known, *brought)[0], match)
            # Beside that of torch, the system may hold one of the right major.
            is_sure = not brought and inside is None
            yield fault if is_sure else replace(fault, severity=Severity.WARNING)
            return


def _cudnn_of_torch(case: Case, matrix: Matrix) -> tuple[Package, ...]:
    """The cuDNN that torch brings by its pins; nothing if it pins none."""
    torch = torch_version(case)
    row = matrix.release("torch", Version(torch.public)) if torch is not None else None
    pins = ((name, pin) for name, pin in (row.pins if row else {}).items() if _CUDNN.match(name))
    return tuple(Package(name, Version(pin.removeprefix("=="))) for name, pin in pins)


def _other_cudnn(found: Software, package: Package, match: ClaimMatch) -> Fault:
    claim = match.claim
    wanted = claim.value.partition(",")[0].removeprefix(">=")
    return Fault(
        message=f"{found.label} needs cuDNN {wanted}; {package.name} {package.version} is here",
        evidence=(found.evidence, Evidence(f"{package.name} {package.version}", package.location)),
        remedies=(
            Remedy(
                f"install cuDNN {wanted} and let the loader find it",
                (f"pip install 'nvidia-cudnn-cu12{claim.value}'",),
                role="python_env",
            ),
            Remedy(f"or a release of {found.name} that is built with the cuDNN that is here"),
        ),
        sources=claim.source,
        extrapolated=match.extrapolated,
    )


_NO_CUDNN = re.compile(r"(?:docker\.io/|nvcr\.io/)?nvidia/cuda:(?!\S*cudnn)\d+\.\S+")


@rule("CUD116", cause="cuda-lib-missing", severity=Severity.WARNING)
def image_without_cudnn(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """The engine takes cuDNN from outside, and its image is one of CUDA without it.

    What: the tag of the image, where it is one of nvidia/cuda, for engines whose project names
        the cuDNN that they load, and the packages that are stated.
    Why: only the tags with cudnn in their names hold it; the others end in "libcudnn.so.9:
        cannot open shared object file", or the engine falls back to the CPU.
    How to fix: the tag of the same CUDA with cudnn, or cuDNN as a package.
    Silent when: a package brings cuDNN, torch is there, or the image is another.
    Sources: the tags of nvidia/cuda; documentation of the engines (claims in the matrix).
    """
    library = installed(case, matrix, "ctranslate2")
    found = library or onnxruntime_beside(case, matrix) or engine(case, matrix)
    claims, ref = covering(matrix, found, "requires-package", "cudnn"), case.scope.image.ref
    if not claims or not _NO_CUDNN.fullmatch(ref):
        raise NotApplicable("no image of CUDA, or no cuDNN is known to be taken from it")
    if found.name == "onnxruntime" and case.scope.package("onnxruntime-gpu") is None:
        raise NotApplicable("the GPU package is not named")
    brings = any("cudnn" in p.name or p.name == "torch" for p in case.scope.packages.value or ())
    if brings or case.scope.torch.is_known:
        return
    yield Fault(
        f"{found.label} needs cuDNN {claims[0].claim.value}, and the image {ref} holds none",
        evidence=(found.evidence, Evidence(ref, "image")),
        remedies=(Remedy("start from the tag with cudnn, or install the package of cuDNN"),),
        sources=claims[0].claim.source,
    )


@rule("CUD113", cause="cuda-lib-missing", severity=Severity.ERROR)
def no_library_for_cuda_of_torch(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """A package holds one library for each CUDA line, and none for that of torch.

    What: the CUDA lines for which the installed release carries a library against the CUDA
        of torch, or the line that its variable asks for; newer releases take another line
        of the same major.
    Why: the package loads the library by torch's CUDA version, finds none, and goes on with
        its CPU library or stops: "Required library version not found".
    How to fix: a release of the package that has the line, or torch for a line that it has.
    Silent when: the line is among them, or the CUDA of torch is not known for sure. A note
        where the engine does not use the package for its weights.
    Sources: the files of the wheels (claims in the matrix).
    """
    package = installed(case, matrix, "bitsandbytes")
    if package is None:
        raise NotApplicable("no package with a library for each CUDA line")
    claims = covering(matrix, package, "cuda-builds", "libraries")
    build = builds.torch_build(case, matrix)
    if not claims or build is None:
        raise NotApplicable("the CUDA lines of the package, or of torch, are not known")
    if build.assumed or not build.cuda.is_exact:
        raise MissingFact("scope.torch.cuda", Missing.NOT_STATED)
    asked = environment(case).get(_OVERRIDE, "")
    line = _line(asked) or two_parts(build.cuda)
    data = claims[0].claim.data
    lines = [str(text) for text in data.get("cuda", ())]
    majors = {Version(text).major for text in lines if data.get("match") == "major" and not asked}
    if str(line) not in lines and line.major not in majors:
        yield _no_line(case, package, line, lines, claims[0])


def _line(digits: str) -> Version | None:
    """The CUDA version that "118" or "124" stands for."""
    return Version(f"{digits[:-1]}.{digits[-1]}") if re.fullmatch(r"\d{3}", digits) else None


def _no_line(
    case: Case, package: Software, line: Version, lines: list[str], match: ClaimMatch
) -> Fault:
    work = case.workload
    used = work is not None and package.name in (
        work.engine,
        str((work.args.value or {}).get("quantization", "")),
        str((work.args.value or {}).get("load_format", "")),
    )
    return Fault(
        message=f"{package.label} has libraries for CUDA {', '.join(lines)}, none for {line}",
        evidence=(package.evidence, Evidence(f"torch for CUDA {line}", case.scope.torch.at)),
        remedies=(
            Remedy(
                "install a release that has a library for this CUDA",
                ("uv pip install --upgrade bitsandbytes",),
                role="python_env",
            ),
        ),
        sources=match.claim.source,
        severity=None if used else Severity.INFO,
        extrapolated=match.extrapolated,
    )


def _lines(case: Case, matrix: Matrix, match: ClaimMatch) -> list[str]:
    """The CUDA lines of a range of releases; some only for cards older than a capability."""
    data = match.claim.data
    lines = [str(text) for text in data.get("cuda", ())]
    cards = {matrix.capability_of(device) for device in case.nvidia_devices}
    is_new = cards and all(
        card is not None and not capability_matches(f"<{data.get('older_than')}", card)
        for card in cards
    )
    return lines if is_new else [*lines, *map(str, data.get("older_cards", ()))]


@rule("CUD114", cause="cuda-major-mismatch", severity=Severity.WARNING)
def no_library_for_cuda_of_host(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """A package holds one library for each CUDA line, and none of the major of the host's.

    What: the CUDA lines for which the package carries libraries, in the release that is stated
        or in any, against the toolkits of the host.
    Why: releases of that time load the library of the CUDA runtime that they find: "Required
        library version not found: libbitsandbytes_cuda102.so".
    How to fix: a torch and a toolkit of a CUDA line that the release has a library for.
    Silent when: the CUDA of torch is known, which another rule judges; a toolkit of a major
        that it has libraries for is there; or no toolkit is known.
    Sources: the files of the wheels (claims in the matrix).
    """
    package = installed(case, matrix, "bitsandbytes") or engine(case, matrix)
    claims = list(matrix.claims(package.name, "cuda-builds", package.version, "libraries"))
    if not claims or builds.torch_build(case, matrix) is not None:
        raise NotApplicable("no package with a library for each CUDA line, or torch decides")
    toolkits = case.facts.nvidia.toolkits
    known = toolkits.known("nvidia.toolkits")
    here = {two_parts(t.version) for t in known if t.version is not None}
    lines = {line for match in claims for line in _lines(case, matrix, match)}
    majors = {
        Version(line).major
        for match in claims
        for line in _lines(case, matrix, match)
        if match.claim.data.get("match") == "major"
    }
    if here and all(str(v) not in lines and v.major not in majors for v in here):
        shown = ", ".join(map(str, sorted(here, key=lambda version: version.low)))
        yield Fault(
            message=f"no listed release of {package.label} has a library for CUDA {shown}",
            evidence=(
                package.evidence,
                Evidence(f"toolkits: CUDA {shown}", toolkits.at),
            ),
            remedies=(Remedy("install a torch, and a release, that agree on a CUDA line"),),
            sources=claims[0].claim.source,
        )


RULES: tuple[Rule, ...] = (
    cudnn_of_another_major,
    image_without_cudnn,
    no_library_for_cuda_of_torch,
    no_library_for_cuda_of_host,
)
