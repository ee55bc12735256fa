"""Is a card older, or newer, than anything that the toolkit of a build compiles for?"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from doctor.facts import CodeTarget, ComputeCapability, Device, Missing, MissingFact, Version
from doctor.findings import Evidence, Remedy
from doctor.matrix import Matrix, capability_matches
from doctor.matrix.model import CompilerTargets
from doctor.rules import cards
from doctor.rules.builds import CudaBuild, engine_build, image_build, torch_build
from doctor.rules.cuda_level import two_parts
from doctor.rules.engine import Case, Fault, NotApplicable, Rule, Severity, rule
from doctor.rules.engine_support import is_below_minimum
from doctor.rules.gpu_code import holders
from doctor.rules.release_builds import stated_build, told_build, toolkit_build
from doctor.rules.software import engine, engine_name

_OF_ITS_IMAGE = ("torch", "triton-server")
# What people compile with the toolkit of the host.
_COMPILED = ("llama.cpp", "llama-cpp-python", "koboldcpp", "whisper.cpp", "ik_llama.cpp")
_BY_EXACT_CARD = "tensorrt"  # whose kernels are chosen for the very card, not for its major


@rule("CUD106", cause="cc-not-in-binary", severity=Severity.ERROR)
def toolkit_without_card(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """A build was made by a CUDA toolkit that compiles nothing for a card this old.

    What: the CUDA version that a build states of itself (label, variant, image) against
        the oldest target of that toolkit's compiler.
    Why: each major drops old cards: CUDA 12 starts at compute capability 5.0, CUDA 13 at
        7.5. Neither machine code nor PTX of such a build can reach an older card, whatever
        the targets it was told to build for.
    How to fix: a build for an older CUDA major, or a newer card.
    Silent when: the code of the build is known, for then that is judged; or only the
        default build of a version is meant. A warning where a toolkit is all that is told of
        an engine which people compile.
    Sources: ptxas of each toolkit (rows in the matrix).
    """
    case.need_vendor("nvidia")
    build = _stated_build(case, matrix)
    if build is None:
        raise NotApplicable("no build states its CUDA version")
    if build.package in {holder.name for holder in holders(case, matrix)}:
        raise NotApplicable("its code is known")
    rows = _compilers(matrix, build)
    if not rows:
        raise MissingFact(f"targets of CUDA {build.cuda}", Missing.NOT_STATED)
    oldest = min(target for row in rows for target in map(_capability, row.targets))
    border = f"starts at compute capability {oldest}", rows[0].source
    remedy = f"take a build of {build.package} for an older CUDA major, or compile it"
    for device in cards.distinct(case.nvidia_devices):
        if cards.need_capability(device, matrix) < oldest:
            fault = _fault(matrix, build, device, border, remedy)
            yield replace(fault, severity=Severity.WARNING) if build.assumed else fault


def _stated_build(case: Case, matrix: Matrix) -> CudaBuild | None:
    found = (f(case, matrix) for f in (engine_build, torch_build, image_build))
    build = next((b for b in found if b is not None), None)
    if build is not None and not build.assumed:
        return build
    if case.workload is None or engine_name(case, matrix) not in _COMPILED:
        return None
    return stated_build(case) or told_build(case) or toolkit_build(case)


def _compilers(matrix: Matrix, build: CudaBuild) -> list[CompilerTargets]:
    """Those that may have made it, if all of them were read."""
    exact = matrix.compiler(two_parts(build.cuda))
    rows = [exact] if exact else matrix.compilers_of(build.cuda.major)
    return [row for row in rows if row.targets]


def _capability(target: str) -> ComputeCapability:
    return CodeTarget.parse(target).capability


def _fault(
    matrix: Matrix,
    build: CudaBuild,
    device: Device,
    border: tuple[str, tuple[str, ...]],
    remedy: str,
) -> Fault:
    """What the compiler of the build's CUDA knows of cards ends at a border, and who says so."""
    card = cards.need_capability(device, matrix)
    return Fault(
        message=f"{build.label} is for CUDA {build.cuda}, whose compiler {border[0]}; "
        f"{cards.label(device, matrix)} has {card}",
        evidence=(build.evidence, cards.evidence(device, matrix)),
        remedies=(Remedy(remedy),),
        sources=(*border[1], *build.sources),
        subject=device.id,
    )


@rule("CUD108", cause="cc-not-in-binary", severity=Severity.WARNING)
def image_before_card(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """A program of PyTorch, Triton Server or TensorRT runs in an image from before the card.

    What: the CUDA version of the image, for TensorRT also of the toolkit inside, against the
        newest target of that toolkit's compiler, for engines that run on PyTorch and whose
        torch is not known, for Triton Server, and for TensorRT of unknown version.
    Why: who writes such an image takes the torch of its CUDA; that one holds no code for a
        card of a later major, and warns "is not compatible with the current PyTorch
        installation" before the first kernel fails. TensorRT chooses its kernels by the exact
        card: a release before the card has none, and its image says "not yet supported".
    How to fix: an image and a torch for a CUDA that knows the card.
    Silent when: the code of any build is known, for then that is judged; a torch for a newer
        CUDA in an older image is possible, so this is a warning.
    Sources: nvcc of each toolkit (rows in the matrix).
    """
    case.need_vendor("nvidia")
    build = image_build(case, matrix) or _toolkit_inside(case)
    if build is None or not _is_of_image(case, matrix, build):
        raise NotApplicable("no image of such a program states its CUDA version")
    if holders(case, matrix) or case.scope.torch.is_known or case.scope.package("torch"):
        raise NotApplicable("its torch is known")
    row = _at_least(matrix, build)
    newest = max(map(_capability, row.targets))
    by_card = engine(case, matrix).name == _BY_EXACT_CARD
    border = f"ends at compute capability {newest if by_card else f'{newest.major}.x'}", row.source
    for device in cards.distinct(case.nvidia_devices):
        card = cards.need_capability(device, matrix)
        if newest < card if by_card else card.major > newest.major:
            remedy = f"an image, and what runs in it, for a CUDA that knows {card.sm}"
            yield _fault(matrix, build, device, border, remedy)


def _toolkit_inside(case: Case) -> CudaBuild | None:
    """The CUDA of the only toolkit that was found inside a container."""
    toolkits = case.facts.nvidia.toolkits
    versions = {t.version for t in toolkits.value or () if t.version is not None}
    if case.scope.kind != "container" or len(versions) != 1:
        return None
    cuda = versions.pop()
    return CudaBuild("toolkit", None, cuda, Evidence(f"CUDA {cuda} inside", toolkits.at))


def _is_of_image(case: Case, matrix: Matrix, build: CudaBuild) -> bool:
    """Tell whether what runs there is as old as that CUDA: torch in an image, or TensorRT."""
    found = engine(case, matrix)
    if found.name == _BY_EXACT_CARD:
        return found.version is None
    of_image = found.name in _OF_ITS_IMAGE or any("torch" in row.pins for row in found.rows)
    return of_image and build.package != "toolkit"


def _at_least(matrix: Matrix, build: CudaBuild) -> CompilerTargets:
    """The compiler of that CUDA, or the next newer one that was read: it ends no earlier."""
    own = two_parts(build.cuda).low
    rows = [row for row in matrix.compilers_of(build.cuda.major) if row.targets]
    newer = [row for row in rows if Version(row.cuda).low >= own]
    if not newer:
        raise MissingFact(f"targets of CUDA {build.cuda}", Missing.NOT_STATED)
    return min(newer, key=lambda row: Version(row.cuda).low)


@rule("CUD109", cause="cc-not-in-binary", severity=Severity.ERROR)
def image_for_other_cards(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """The image of the engine is one that its project builds for cards of another capability.

    What: the tag of the image, where a project makes one for each generation, against the
        capability of every card.
    Why: such an image holds code for one generation; its program compares the two at start.
    How to fix: the tag for the card, as the finding says.
    Silent when: no image is named, or its project makes one for all cards; a card below the
        engine's minimum is judged by itself.
    Sources: documentation and checks of the projects (rows in the matrix).
    """
    case.need_vendor("nvidia")
    found = engine(case, matrix)
    repository, _, tag = case.scope.image.ref.partition("@")[0].rpartition(":")
    rows = (match.claim for match in matrix.claims(found.name, "image-capability"))
    own = [row for row in rows if repository.endswith(row.data["repository"])]
    mine = [row for row in own if re.fullmatch(row.data["tag"], tag)]
    if not mine:
        raise NotApplicable("no image that is made for some cards alone")
    for device in cards.distinct(case.nvidia_devices):
        card = cards.need_capability(device, matrix)
        if capability_matches(mine[0].value, card) or is_below_minimum(case, matrix, card):
            continue
        yield Fault(
            f"{case.scope.image.ref} is made for compute capability {mine[0].value}; "
            f"{cards.label(device, matrix)} has {card}: {mine[0].text}",
            evidence=(Evidence(case.scope.image.ref, "image"), cards.evidence(device, matrix)),
            remedies=(Remedy(mine[0].remedy),),
            sources=mine[0].source,
            subject=device.id,
        )


RULES: tuple[Rule, ...] = (toolkit_without_card, image_before_card, image_for_other_cards)
