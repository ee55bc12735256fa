"""Has the driver, or every driver that is maintained, dropped a card of the host?"""

from __future__ import annotations

from collections.abc import Iterator

from doctor.facts import Device, Missing, MissingFact, Version
from doctor.findings import Remedy
from doctor.matrix import Matrix
from doctor.rules import cards
from doctor.rules.cuda_level import is_windows_driver
from doctor.rules.driver_choice import install_branch, lasting_branches
from doctor.rules.driver_floor import driver_fact
from doctor.rules.engine import Case, Fault, Rule, Severity, rule


@rule("DRV111", cause="driver-too-new-for-old-gpu", severity=Severity.ERROR, gate=True)
def driver_dropped_card(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """The driver branch has dropped the generation of a card of this host.

    What: the branch of the loaded driver against the last branch that drives each card; where
        a report about the driver names none, every branch that is maintained: a warning.
    Why: NVIDIA ends support for a generation with a branch; newer ones ignore the card
        and the kernel log names the legacy branch.
    How to fix: install and hold the last branch that drives the card, and keep to CUDA
        builds that still hold code for it.
    Silent when: no last branch is known for the card.
    Sources: NVIDIA Data Center Drivers documentation, architecture matrix; the legacy
        flags of supported-gpus lists (rows in the matrix).
    """
    devices = cards.desktop_cards(case, matrix)
    if is_windows_driver(case, matrix):
        yield from _dropped_on_windows(case, matrix, devices)
        return
    reading = cards.driver_to_judge(case)
    if not (reading.is_known or reading.is_absent) and _is_about_driver(case):
        dropped = tuple(_dropped_by_all(case, matrix, devices))
        if dropped:
            yield from dropped
            return
    driver = reading.known("nvidia.driver")
    newest = matrix.newest_branch()
    for device in cards.distinct(devices):
        span = cards.branch_span(device, matrix)
        if span.last is None and driver.newer_than(Version(f"{newest}.*")) is True:
            raise MissingFact(f"matrix rows of driver branches after {newest}", Missing.NOT_STATED)
        if span.last is not None and driver.at_least(Version(str(span.last + 1))) is True:
            yield Fault(
                message=f"driver {driver} has dropped {cards.label(device, matrix)}: "
                f"branch {span.last} is the last that drives it",
                evidence=(driver_fact(case), cards.evidence(device, matrix)),
                remedies=_back_to(case, matrix, span.last),
                sources=span.sources,
                subject=device.id,
            )


def _dropped_on_windows(case: Case, matrix: Matrix, devices: tuple[Device, ...]) -> Iterator[Fault]:
    """Windows drivers of a branch go on counting up to the next one: 581.80 is of 580."""
    driver = case.facts.nvidia.driver.known("nvidia.driver")
    known = sorted(row.branch for row in matrix.drivers.branches)
    for device in cards.distinct(devices):
        span = cards.branch_span(device, matrix)
        later = next((b for b in known if span.last is not None and b > span.last), None)
        if later is not None and driver.at_least(Version(str(later))) is True:
            yield Fault(
                message=f"driver {driver} has dropped {cards.label(device, matrix)}: "
                f"branch {span.last} is the last that drives it",
                evidence=(driver_fact(case), cards.evidence(device, matrix)),
                remedies=(Remedy(f"install the last Windows driver before {later}, and keep it"),),
                sources=span.sources,
                subject=device.id,
            )


def _is_about_driver(case: Case) -> bool:
    """A report about the driver itself, not about an engine on a driver that works."""
    return case.workload is not None and case.workload.engine == "driver"


def _dropped_by_all(case: Case, matrix: Matrix, devices: tuple[Device, ...]) -> Iterator[Fault]:
    """Who names no driver has what the distribution offers; none of the maintained ones will do."""
    branches = [row.branch for row in lasting_branches(matrix)]
    for device in cards.distinct(devices):
        span = cards.branch_span(device, matrix)
        if span.last is not None and branches and min(branches) > span.last:
            yield Fault(
                message=f"no maintained driver branch drives {cards.label(device, matrix)}: "
                f"{span.last} was the last, and {min(branches)} is the oldest still maintained",
                evidence=(cards.evidence(device, matrix),),
                remedies=_back_to(case, matrix, span.last),
                sources=span.sources,
                subject=device.id,
                severity=Severity.WARNING,
            )


def _back_to(case: Case, matrix: Matrix, branch: int) -> tuple[Remedy, ...]:
    found = install_branch(case, matrix)
    if found:
        return found
    return (
        Remedy(
            action=f"on the host, install driver branch {branch} and hold it",
            role="nvidia_driver",
            risk="every other card of the host must be driven by that branch too",
            reboot=True,
            undo="needs-reboot",
        ),
    )


RULES: tuple[Rule, ...] = (driver_dropped_card,)
