"""Rules about installed packages that an engine uses of its own accord where it finds them."""

from __future__ import annotations

from collections.abc import Iterator

from doctor.findings import Evidence, Remedy
from doctor.matrix import Matrix
from doctor.matrix.model import Claim
from doctor.rules import cards
from doctor.rules.engine import Case, Fault, NotApplicable, Rule, Severity, rule
from doctor.rules.engine_features import BACKEND_ARGUMENTS
from doctor.rules.engine_support import floors_of
from doctor.rules.model_facts import argument, environment
from doctor.rules.settings import applicable, settings
from doctor.rules.software import Software, engine, installed


@rule("ENG303", cause="attention-backend-unsupported", severity=Severity.WARNING)
def kernels_found_but_not_for_card(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """An installed package of attention kernels has none for this card, and the engine uses it.

    What: packages that the engine, or code that it runs, uses wherever they are installed,
        against the lowest compute capability of their release.
    Why: nothing asks the card before the first call, which then fails: "FlashAttention only
        supports Ampere GPUs or newer".
    How to fix: uninstall the package, or set the variable that the finding names; the engine
        has another path.
    Silent when: every card is new enough, the variable is set, or a back end was chosen,
        which is judged by itself.
    Sources: imports of the engines and of models that bring code (rows in the matrix).
    """
    if any(argument(case, name)[0] for name in BACKEND_ARGUMENTS):
        raise NotApplicable("a back end was chosen")
    case.need_vendor("nvidia")
    env = environment(case)
    uses = applicable(matrix, engine(case, matrix), "uses", settings(case, matrix)[0])
    for claim in (match.claim for match in uses):
        part = installed(case, matrix, claim.key)
        if part is not None and not _is_off(claim, env):
            yield from _below(case, matrix, part, claim)


def _is_off(claim: Claim, env: dict[str, str]) -> bool:
    return any(env.get(name) for name in claim.data.get("unless_env", {}))


def _below(case: Case, matrix: Matrix, part: Software, claim: Claim) -> Iterator[Fault]:
    floors = floors_of(case, matrix, part)
    for device in cards.distinct(case.nvidia_devices):
        capability = cards.capability(device, matrix).value
        if capability is None or not floors:
            continue
        if all(capability < floor.capability for floor in floors):
            yield Fault(
                f"{part.label} is installed and has no kernels for "
                f"{cards.label(device, matrix)} ({capability}); {claim.text}",
                evidence=(cards.evidence(device, matrix), Evidence(part.label, part.at)),
                remedies=(Remedy(claim.remedy),),
                sources=(*claim.source, *floors[0].sources),
                subject=device.id,
            )


RULES: tuple[Rule, ...] = (kernels_found_but_not_for_card,)
