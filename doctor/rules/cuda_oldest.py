"""Is a card older than anything that the toolkit of a build compiles for?"""

from __future__ import annotations

from collections.abc import Iterator

from doctor.facts import CodeTarget, ComputeCapability, Device, Missing, MissingFact
from doctor.findings import Remedy
from doctor.matrix import Matrix
from doctor.matrix.model import CompilerTargets
from doctor.rules import cards
from doctor.rules.builds import CudaBuild, engine_build, image_build, torch_build
from doctor.rules.cuda_level import two_parts
from doctor.rules.engine import Case, Fault, NotApplicable, Rule, Severity, rule
from doctor.rules.gpu_code import holders


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
    for device in cards.distinct(case.nvidia_devices):
        card = cards.need_capability(device, matrix)
        if card < oldest:
            yield _fault(matrix, build, device, (card, oldest), rows[0].source)


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
    pair: tuple[ComputeCapability, ComputeCapability],
    sources: tuple[str, ...],
) -> Fault:
    card, oldest = pair
    return Fault(
        message=f"{build.label} is for CUDA {build.cuda}, whose compiler starts at compute "
        f"capability {oldest}; {cards.label(device, matrix)} has {card}",
        evidence=(build.evidence, cards.evidence(device, matrix)),
        remedies=(
            Remedy(f"take a build of {build.package} for an older CUDA major, or compile it"),
        ),
        sources=(*sources, *build.sources),
        subject=device.id,
    )


RULES: tuple[Rule, ...] = (toolkit_without_card,)
