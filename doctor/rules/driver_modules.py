"""Is the right flavour of the NVIDIA kernel modules loaded: open or proprietary."""

from __future__ import annotations

from collections.abc import Iterator

from doctor.facts import Device
from doctor.findings import Evidence, Remedy
from doctor.matrix import Matrix
from doctor.rules import cards
from doctor.rules.driver_choice import branch_commands
from doctor.rules.driver_state import DRIVER_DOMAIN
from doctor.rules.engine import Case, Fault, Rule, Severity, rule


@rule("DRV141", cause="open-module-required", severity=Severity.ERROR)
def proprietary_module_on_new_card(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """The proprietary kernel module is loaded and a card needs the open one.

    What: the flavour of the kernel module against what each card supports.
    Why: NVIDIA supports Blackwell and Grace Hopper, and what follows, by the open modules
        only. The proprietary module finds the card and fails to start it (RmInitAdapter).
    How to fix: install the open flavour of the same driver version; no newer one is needed.
    Silent when: the flavour is open or unknown, or no card requires it.
    Sources: NVIDIA driver README, open kernel modules; platform support of the GPU
        Operator (rows in the matrix).
    """
    devices = cards.desktop_cards(case, matrix)
    nvidia = case.facts.nvidia
    flavour = nvidia.module_flavour.known("nvidia.module_flavour")
    for device in cards.distinct(devices):
        if flavour == "proprietary" and cards.shared(device, matrix, "open_modules") == "required":
            yield Fault(
                message=f"{cards.label(device, matrix)} needs the open kernel modules, "
                "and the proprietary ones are loaded",
                evidence=(
                    Evidence("kernel module is proprietary", nvidia.module_flavour.at),
                    cards.evidence(device, matrix),
                ),
                remedies=(_other_flavour(case, is_open=True),),
                sources=cards.branch_span(device, matrix).sources,
                subject=device.id,
            )


@rule("DRV142", cause="open-module-unsupported-gpu", severity=Severity.ERROR)
def open_module_on_old_card(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """The open kernel module is loaded and a card is too old for it.

    What: the flavour of the kernel module against what each card supports.
    Why: the open modules leave much to a firmware processor (GSP) that cards before
        Turing do not have.
    How to fix: install the proprietary flavour of the same driver version.
    Silent when: the flavour is proprietary or unknown, or every card has the processor. A
        warning for cards that the first open drivers served only if a parameter asked for it.
    Sources: NVIDIA driver README, open kernel modules (rows in the matrix).
    """
    devices = cards.desktop_cards(case, matrix)
    nvidia = case.facts.nvidia
    flavour = nvidia.module_flavour.known("nvidia.module_flavour")
    for device in cards.distinct(devices):
        if flavour == "open":
            yield from _served_on_request(case, matrix, device)
        if flavour == "open" and cards.shared(device, matrix, "open_modules") == "no":
            yield Fault(
                message=f"{cards.label(device, matrix)} cannot run on the open kernel modules",
                evidence=(
                    Evidence("kernel module is open", nvidia.module_flavour.at),
                    cards.evidence(device, matrix),
                ),
                remedies=(_other_flavour(case, is_open=False),),
                sources=cards.branch_span(device, matrix).sources,
                subject=device.id,
            )


def _served_on_request(case: Case, matrix: Matrix, device: Device) -> Iterator[Fault]:
    """Cards of a class for which the open modules of this driver are no default."""
    driver = case.facts.nvidia.driver.value
    if driver is None or cards.shared(device, matrix, "open_modules") == "no":
        return
    own = cards.gpu_class(device, matrix)
    for match in matrix.claims(DRIVER_DOMAIN, "open-module-class", driver):
        if own and own in match.claim.value.split("|"):
            yield Fault(
                f"driver {driver} with {cards.label(device, matrix)}: {match.claim.text}",
                evidence=(
                    Evidence("kernel module is open", case.facts.nvidia.module_flavour.at),
                    cards.evidence(device, matrix),
                ),
                remedies=(_other_flavour(case, is_open=False), Remedy(match.claim.remedy)),
                sources=match.claim.source,
                subject=device.id,
                severity=Severity.WARNING,
            )


def _other_flavour(case: Case, is_open: bool) -> Remedy:
    driver = case.facts.nvidia.driver.value
    system = case.facts.host.os.value
    branch = driver.major if driver is not None else None
    return Remedy(
        action=f"install the {'open' if is_open else 'proprietary'} flavour of the same driver",
        commands=branch_commands(system, branch, is_open) if branch else (),
        role="nvidia_driver",
        reboot=True,
        undo="needs-reboot",
    )


RULES: tuple[Rule, ...] = (
    proprietary_module_on_new_card,
    open_module_on_old_card,
)
