"""The state of an otherwise fitting driver: known defects, what holds its version."""

from __future__ import annotations

import fnmatch
import re
import shlex
from collections.abc import Iterator

from doctor.facts import REPORTED
from doctor.findings import Evidence, Remedy
from doctor.matrix import Matrix
from doctor.rules import cards
from doctor.rules.decide import each
from doctor.rules.driver_choice import family
from doctor.rules.engine import Case, Fault, NotApplicable, Rule, Severity, rule
from doctor.rules.settings import applicable, settings
from doctor.rules.software import software

DRIVER_DOMAIN = "nvidia-driver"
_DRIVER_PACKAGE = re.compile(
    r"(?:lib)?nvidia-|libcuda1|cuda-drivers|kmod-nvidia|akmod-nvidia|nvidia$|linux-modules-nvidia"
)
_NOT_DRIVER = re.compile(r"container|nvidia-ml-py|cuda-(?:toolkit|nvcc)")


@rule("DRV161", cause="driver-kernel-bug", severity=Severity.WARNING)
def known_driver_defect(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """This driver version has a published defect on such a host.

    What: the driver version, the kernel and the cards against defects that are on record.
    Why: everything looks compatible, and work still fails, hangs or is slow.
    How to fix: the way round that the record names, or a version without the defect.
    Silent when: no record fits, or one of its conditions is not known.
    Sources: NVIDIA release notes and issue threads (claims in the matrix).
    """
    cards.desktop_cards(case, matrix)
    yield from each((lambda: _memory_management(case), lambda: _on_record(case, matrix)))


def _memory_management(case: Case) -> Iterator[Fault]:
    """nvidia_uvm found no address range for its memory management beside a randomised kernel."""
    messages = case.facts.nvidia.kernel_messages
    for line in messages.value or ():
        if "request_free_mem_region" in line:
            yield Fault(
                message="nvidia_uvm could not set up its memory management: CUDA does not start",
                evidence=(Evidence(line.strip()[:300], messages.at),),
                remedies=(
                    Remedy(
                        "turn that part of nvidia_uvm off, or the kernel's address randomisation",
                        (
                            "echo 'options nvidia_uvm uvm_disable_hmm=1' | "
                            "sudo tee /etc/modprobe.d/nvidia-uvm-hmm.conf",
                            "sudo reboot",
                        ),
                        reboot=True,
                    ),
                ),
                sources=("CUDA Toolkit release notes, known issues of HMM with KASLR",),
                severity=Severity.ERROR,
            )
            return


def _on_record(case: Case, matrix: Matrix) -> Iterator[Fault]:
    driver = case.facts.nvidia.driver.known("nvidia.driver")
    found = software(matrix, DRIVER_DOMAIN, driver, case.facts.nvidia.driver.at)
    for setting in settings(case, matrix):
        for match in applicable(matrix, found, "known-bad", setting):
            claim = match.claim
            yield Fault(
                message=f"driver {driver}: {claim.text}",
                evidence=(Evidence(f"driver {driver}", case.facts.nvidia.driver.at),),
                remedies=(Remedy(claim.remedy),) if claim.remedy else (),
                sources=tuple(claim.source),
                extrapolated=match.extrapolated,
            )


@rule("DRV181", cause="driver-unpinned", severity=Severity.WARNING)
def driver_not_held(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """Automatic upgrades are on and nothing holds the driver packages.

    What: the packages of the NVIDIA driver against holds, pins and the list of packages
        that automatic upgrades leave alone.
    Why: an upgrade replaces libraries and the module on disk while the old module stays
        loaded; from then on new processes fail until a reboot.
    How to fix: hold every package of the driver's source, and name them in the list that
        automatic upgrades pass over. Holding some is not enough: siblings split the set.
    Silent when: automatic upgrades are off, a hold or pin covers the driver, or one of
        these is not known; in a report, a look at the holds that found none, or a tool for
        upgrades beside packages of the driver, is enough.
    Sources: unattended-upgrades and apt-mark manual pages; measured with real packages.
    """
    if case.scope.id == REPORTED:
        yield from _as_told(case)
        return
    _need_packaged_driver(case)
    upgrades = case.facts.host.automatic_upgrades.present("host.automatic_upgrades")
    if upgrades is None or not upgrades.enabled:
        raise NotApplicable("automatic upgrades are off")
    names = _driver_packages(case)
    held = case.facts.host.held_packages.present("host.held_packages")
    holds = (*(held.holds if held else ()), *(held.pins if held else ()))
    loose = [n for n in names if not _covered(n, holds) and not _passed_over(n, upgrades.blacklist)]
    if loose:
        yield Fault(
            message=f"{upgrades.tool or 'automatic upgrades'} may replace the driver: "
            f"{len(loose)} of its {len(names)} packages are not held ({', '.join(loose[:3])} ...)",
            evidence=_upgrade_evidence(case, holds),
            remedies=(_hold(case, loose),),
        )


def _upgrade_evidence(case: Case, holds: tuple[str, ...]) -> tuple[Evidence, ...]:
    upgrades, held = case.facts.host.automatic_upgrades, case.facts.host.held_packages
    state = "on" if upgrades.is_known else "not told of"
    return (
        Evidence(f"automatic upgrades are {state}", upgrades.at),
        Evidence(
            f"held: {', '.join(holds) or 'nothing' if held.is_known else 'not told'}", held.at
        ),
    )


def _as_told(case: Case) -> Iterator[Fault]:
    """By what somebody tells: upgrades that are on, or a look at the holds that found none.

    Who names the tool for upgrades and no hold has none: it would have been the answer.
    """
    host, driver = case.facts.host, case.facts.nvidia.driver
    names = _driver_packages(case)
    upgrades, held = host.automatic_upgrades, host.held_packages
    if host.platform.value in ("wsl2", "jetson") or not (names or driver.is_known):
        raise NotApplicable("no driver of this system is told of")
    if upgrades.value is not None and not upgrades.value.enabled:
        raise NotApplicable("automatic upgrades are off")
    if not held.is_known and (not names or not upgrades.is_known):
        upgrades.known("host.automatic_upgrades")
        held.known("host.held_packages")
    holds = (*held.value.holds, *held.value.pins) if held.value else ()
    loose = [n for n in names if not _covered(n, holds)] if names or holds else ["nvidia-driver"]
    if loose:
        cause = "automatic upgrades" if upgrades.is_known else "the next upgrade"
        yield Fault(
            message=f"{cause} may replace the driver: nothing holds {loose[0]}",
            evidence=_upgrade_evidence(case, holds),
            remedies=(_hold(case, names or ["nvidia-*", "libnvidia-*"]),),
        )


def _need_packaged_driver(case: Case) -> None:
    if case.facts.devices.is_known and not case.nvidia_devices:
        raise NotApplicable("no nvidia device")
    case.facts.host.packages.known("host.packages")
    if not _driver_packages(case):
        raise NotApplicable("the driver does not come from packages")


def _driver_packages(case: Case) -> list[str]:
    found = case.facts.host.packages.value or ()
    return [
        p.name for p in found if _DRIVER_PACKAGE.match(p.name) and not _NOT_DRIVER.search(p.name)
    ]


def _covered(name: str, holds: tuple[str, ...]) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in holds)


def _passed_over(name: str, blacklist: tuple[str, ...]) -> bool:
    """unattended-upgrades takes regular expressions that match from the start of the name."""
    return any(_matches(pattern, name) for pattern in blacklist)


def _matches(pattern: str, name: str) -> bool:
    try:
        return re.match(pattern, name) is not None
    except re.error:
        return False


def _hold(case: Case, names: list[str]) -> Remedy:
    if family(case.facts.host.os.value) in ("rhel", "suse"):
        tool = (
            "zypper addlock"
            if family(case.facts.host.os.value) == "suse"
            else "dnf versionlock add"
        )
        return Remedy(
            action="lock every package of the driver",
            commands=(f"sudo {tool} {shlex.join(names)}",),
            role="nvidia_pin",
        )
    return Remedy(
        action="hold every package of the driver",
        commands=(f"sudo apt-mark hold {shlex.join(names)}",),
        role="nvidia_pin",
    )


RULES: tuple[Rule, ...] = (known_driver_defect, driver_not_held)
