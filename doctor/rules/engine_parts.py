"""Rules about installed packages that an engine uses of its own accord where it finds them."""

from __future__ import annotations

from collections.abc import Iterator

from doctor.facts import ComputeCapability, Device
from doctor.findings import Evidence, Remedy
from doctor.matrix import Matrix
from doctor.matrix.model import Claim
from doctor.rules import cards
from doctor.rules.engine import Case, Fault, NotApplicable, Rule, Severity, rule
from doctor.rules.engine_features import BACKEND_ARGUMENTS
from doctor.rules.engine_support import Floor, floors_of
from doctor.rules.model_facts import argument, environment
from doctor.rules.settings import applicable, settings
from doctor.rules.software import Software, engine, installed, software


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
    found = engine(case, matrix)
    if matrix.engine(found.name) is None:  # a program of its own, around torch
        found = software(matrix, "torch", None)
    uses = applicable(matrix, found, "uses", settings(case, matrix)[0])
    for claim in (match.claim for match in uses):
        part = installed(case, matrix, claim.key)
        if part is not None and not _is_off(claim, env):
            yield from _below(case, matrix, part, claim)
            yield from _refused(case, matrix, part, claim)


def _is_off(claim: Claim, env: dict[str, str]) -> bool:
    return any(env.get(name) for name in claim.data.get("unless_env", {}))


def cards_below(
    case: Case, matrix: Matrix, found: Software
) -> Iterator[tuple[Device, ComputeCapability, Floor]]:
    """NVIDIA cards below the floor of every version that the software may be; newest floor."""
    floors = floors_of(case, matrix, found)
    for device in cards.distinct(case.nvidia_devices):
        capability = cards.capability(device, matrix).value
        if floors and capability and all(capability < floor.capability for floor in floors):
            yield device, capability, floors[0]


def _refused(case: Case, matrix: Matrix, part: Software, claim: Claim) -> Iterator[Fault]:
    """Cards, mostly newer ones, of which the matrix says that the package does not serve them."""
    for setting in settings(case, matrix):
        for match in applicable(matrix, part, "capability-unsupported", setting):
            if setting.device is not None:
                yield Fault(
                    f"{part.label} is installed and does not serve "
                    f"{cards.label(setting.device, matrix)}: {match.claim.text}",
                    evidence=(
                        cards.evidence(setting.device, matrix),
                        Evidence(part.label, part.at),
                    ),
                    remedies=(Remedy(match.claim.remedy or claim.remedy),),
                    sources=(*match.claim.source, *claim.source),
                    subject=setting.device.id,
                    extrapolated=match.extrapolated,
                )


def _below(case: Case, matrix: Matrix, part: Software, claim: Claim) -> Iterator[Fault]:
    for device, capability, floor in cards_below(case, matrix, part):
        yield Fault(
            f"{part.label} is installed and has no kernels for "
            f"{cards.label(device, matrix)} ({capability}); {claim.text}",
            evidence=(cards.evidence(device, matrix), Evidence(part.label, part.at)),
            remedies=(Remedy(claim.remedy),),
            sources=(*claim.source, *floor.sources),
            subject=device.id,
        )


@rule("ENG304", cause="attention-backend-unsupported", severity=Severity.ERROR)
def kernel_version_not_for_card(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """A version of FlashAttention is asked for by a variable, and has no kernels for the card.

    What: the variable or argument that chooses the version against the cards that it is for.
    Why: the newer versions are written for one generation; the engine stops at an assertion, or
        takes another version without a word.
    How to fix: unset the variable: the engine chooses by the card.
    Silent when: no version is chosen, or the card is one that it is for.
    Sources: vllm-project/vllm issues 12429 and 13766 (claims in the matrix).
    """
    env = environment(case)
    asked = str(env.get(_VERSION, "") or argument(case, "flash_attn_version")[0] or "")
    if not asked:
        raise NotApplicable("no version is chosen")
    found = engine(case, matrix)
    for setting in settings(case, matrix):
        for match in applicable(matrix, found, "attention-version", setting, asked):
            if setting.device is not None:
                yield Fault(
                    f"FlashAttention {asked} on {cards.label(setting.device, matrix)}: "
                    f"{match.claim.text}",
                    evidence=(
                        cards.evidence(setting.device, matrix),
                        Evidence(f"{_VERSION}={asked}", case.scope.env.at),
                    ),
                    remedies=(Remedy(match.claim.remedy, (f"unset {_VERSION}",)),),
                    sources=match.claim.source,
                    subject=setting.device.id,
                    severity=Severity.WARNING if match.claim.value == "ignored" else None,
                    extrapolated=match.extrapolated,
                )


_VERSION = "VLLM_FLASH_ATTN_VERSION"

RULES: tuple[Rule, ...] = (kernels_found_but_not_for_card, kernel_version_not_for_card)
