"""Is a card older, or newer, than anything that the toolkit of a build compiles for?"""

from __future__ import annotations

from collections.abc import Iterator

from doctor.facts import CodeTarget, ComputeCapability, Device, Missing, MissingFact, Version
from doctor.findings import Remedy
from doctor.matrix import Matrix
from doctor.matrix.model import CompilerTargets
from doctor.rules import cards
from doctor.rules.builds import CudaBuild, engine_build, image_build, torch_build
from doctor.rules.cuda_level import two_parts
from doctor.rules.engine import Case, Fault, NotApplicable, Rule, Severity, rule
from doctor.rules.gpu_code import holders
from doctor.rules.software import engine


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
        default build of a version is meant.
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
            yield _fault(matrix, build, device, border, remedy)


def _stated_build(case: Case, matrix: Matrix) -> CudaBuild | None:
    found = (f(case, matrix) for f in (engine_build, torch_build, image_build))
    build = next((b for b in found if b is not None), None)
    return None if build is None or build.assumed else build


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
    """A PyTorch program runs in an image whose CUDA is older than the card.

    What: the CUDA version of the image against the newest target of that toolkit's compiler,
        for engines that run on PyTorch and whose torch is not known.
    Why: who writes such an image takes the torch of its CUDA; that one holds no code for a
        card of a later major, and warns "is not compatible with the current PyTorch
        installation" before the first kernel fails.
    How to fix: an image and a torch for a CUDA that knows the card.
    Silent when: the code of any build is known, for then that is judged; a torch for a newer
        CUDA in an older image is possible, so this is a warning.
    Sources: nvcc of each toolkit (rows in the matrix).
    """
    case.need_vendor("nvidia")
    build = image_build(case, matrix)
    if build is None or not _runs_on_torch(case, matrix):
        raise NotApplicable("no image of a PyTorch program states its CUDA version")
    if holders(case, matrix) or case.scope.torch.is_known or case.scope.package("torch"):
        raise NotApplicable("its torch is known")
    row = _at_least(matrix, build)
    newest = max(map(_capability, row.targets))
    border = f"ends at compute capability {newest.major}.x", row.source
    for device in cards.distinct(case.nvidia_devices):
        card = cards.need_capability(device, matrix)
        if card.major > newest.major:
            remedy = f"an image and a torch for a CUDA that knows {card.sm}"
            yield _fault(matrix, build, device, border, remedy)


def _runs_on_torch(case: Case, matrix: Matrix) -> bool:
    found = engine(case, matrix)
    return found.name == "torch" or any("torch" in row.pins for row in found.rows)


def _at_least(matrix: Matrix, build: CudaBuild) -> CompilerTargets:
    """The compiler of that CUDA, or the next newer one that was read: it ends no earlier."""
    own = two_parts(build.cuda).low
    rows = [row for row in matrix.compilers_of(build.cuda.major) if row.targets]
    newer = [row for row in rows if Version(row.cuda).low >= own]
    if not newer:
        raise MissingFact(f"targets of CUDA {build.cuda}", Missing.NOT_STATED)
    return min(newer, key=lambda row: Version(row.cuda).low)


RULES: tuple[Rule, ...] = (toolkit_without_card, image_before_card)
