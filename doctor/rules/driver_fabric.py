"""Hosts with NVSwitch: the fabric manager, and what it needs."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.facts import Device, Version
from doctor.findings import Evidence, Remedy
from doctor.matrix import Matrix
from doctor.rules import cards
from doctor.rules.decide import each, is_absent, missed
from doctor.rules.driver_state import DRIVER_DOMAIN
from doctor.rules.engine import Case, Fault, NotApplicable, Rule, Severity, rule

_SWITCHED = "nvswitch"
_UNIT = "nvidia-fabricmanager"


def _switched_cards(case: Case, matrix: Matrix) -> tuple[Device, ...]:
    """Cards that are joined by NVSwitch on this host; `NotApplicable` where there are none."""
    found = cards.desktop_cards(case, matrix)
    switches = case.facts.nvidia.nvswitch
    if switches.value or _fabric_states(found):
        return found
    if switches.is_known:
        raise NotApplicable("no NVSwitch on this host")
    kinds = {cards.shared(d, matrix, "nvlink") for d in found}
    if kinds <= {"none", "bridge", "c2c"}:
        raise NotApplicable("these cards are not joined by NVSwitch")
    if kinds == {_SWITCHED}:
        return found
    return tuple(d for d in found if cards.shared(d, matrix, "nvlink") in (_SWITCHED, ""))


def _fabric_states(devices: tuple[Device, ...]) -> list[str]:
    """What NVML says of each card's fabric; switches of late boards are no PCI devices."""
    known = [d.fabric.value for d in devices if d.fabric.value]
    return [state for state in known if state != "not-supported"]


def _has_switch(case: Case, matrix: Matrix) -> bool | None:
    """True if NVSwitch was seen, or every product that a card may be sits on such a board."""
    if _fabric_states(case.nvidia_devices):
        return True
    if case.facts.nvidia.nvswitch.is_known:
        return bool(case.facts.nvidia.nvswitch.value)
    is_whole = not _is_small(case, matrix)
    if is_whole and len(case.nvidia_devices) >= _board(matrix):
        return True if all(_sits_on_board(d, matrix) for d in case.nvidia_devices) else None
    kinds = {cards.shared(d, matrix, "nvlink") for d in case.nvidia_devices}
    return True if kinds == {_SWITCHED} and is_whole else None


def _sits_on_board(device: Device, matrix: Matrix) -> bool:
    """Some product of that name comes on boards with NVSwitch, and none as a card by itself.

    Modules of other boards come in fours: so many as a board holds are no such.
    """
    kinds = {row.nvlink for row in cards.products(device, matrix)}
    return _SWITCHED in kinds and not kinds & {"none", "bridge", "c2c"}


def _board(matrix: Matrix) -> int:
    """How many cards the smallest board with NVSwitch holds."""
    rows = matrix.claims(DRIVER_DOMAIN, "nvswitch-board")
    return min((int(row.claim.value) for row in rows), default=0)


def _is_small(case: Case, matrix: Matrix) -> bool:
    """Fewer cards than a board with NVSwitch holds: a smaller board, or a part of one in a VM."""
    if case.facts.devices.partial:
        return False
    rows = matrix.claims(DRIVER_DOMAIN, "nvswitch-board")
    return any(len(case.nvidia_devices) < int(row.claim.value) for row in rows)


def _manager_version(case: Case) -> tuple[Version | None, Evidence]:
    reading = case.facts.nvidia.fabric_manager.version
    package = next((p for p in case.scope.packages.value or () if p.name.startswith(_UNIT)), None)
    if reading.value is None and package is not None and package.version is not None:
        at = case.scope.packages.at
        return package.version, Evidence(f"{package.name} {package.version}", at)
    return reading.value, Evidence(f"fabric manager {reading.value}", reading.at)


@rule("DRV151", cause="fabricmanager-mismatch", severity=Severity.ERROR)
def fabric_manager_not_of_driver(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """On an NVSwitch host the fabric manager is of another version than the driver.

    What: the version of the fabric manager against that of the loaded driver, to the
        last digit, on hosts whose cards are joined by NVSwitch.
    Why: the fabric manager refuses to start beside another driver; the cards then never
        leave the state in which every CUDA call answers 802 "system not yet initialized".
    How to fix: install the fabric manager of exactly the driver's version, start it, and
        hold both packages together.
    Silent when: the cards are PCIe cards, bridged, or joined to a CPU only. A warning where
        the cards are not known: nobody installs it without NVSwitch.
    Sources: NVIDIA Fabric Manager user guide; gpu-driver-container issue 735.
    """
    is_known = case.facts.devices.is_known or _manager_version(case)[0] is None
    found = _switched_cards(case, matrix) if is_known else ()
    driver = case.facts.nvidia.driver.known("nvidia.driver")
    version, fact = _manager_version(case)
    if version is None:
        case.facts.nvidia.fabric_manager.version.present("nvidia.fabric_manager.version")
        return
    if version.same_as(driver) is False:
        yield Fault(
            message=f"fabric manager {version} does not belong to driver {driver}",
            evidence=(fact, _driver(case), *(cards.evidence(d, matrix) for d in found[:1])),
            remedies=(_install(driver),),
            sources=("https://docs.nvidia.com/datacenter/tesla/fabric-manager-user-guide/",),
            severity=None if found else Severity.WARNING,
        )


@rule("DRV152", cause="fabricmanager-mismatch", severity=Severity.ERROR)
def fabric_manager_not_running(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """On an NVSwitch host no fabric manager runs, or what it needs is missing.

    What: whether the fabric manager is installed and its service active, and, for
        switches that are managed over InfiniBand, the kernel modules for that.
    Why: without it CUDA answers 802 "system not yet initialized" on every card.
    How to fix: install the fabric manager of the driver's version, load the InfiniBand
        modules where the switches need them, start the service.
    Silent when: the cards are not joined by NVSwitch, or that is not known for sure, as with
        fewer cards than such a board holds.
    Sources: NVIDIA Fabric Manager user guide; gpu-operator issue 2781.
    """
    _switched_cards(case, matrix)
    if not _has_switch(case, matrix):
        case.facts.nvidia.nvswitch.known("nvidia.nvswitch")
    yield from each((lambda: _modules_missing(case), lambda: _not_ready(case)))


def _not_ready(case: Case) -> Iterator[Fault]:
    """What NVML says of the fabric beats what the service says of itself."""
    states = _fabric_states(case.nvidia_devices)
    waiting = [state for state in states if state != "completed"]
    if waiting:
        at = next(d.fabric.at for d in case.nvidia_devices if d.fabric.value == waiting[0])
        yield _down(case, f"the fabric is {waiting[0]}", at, case.facts.nvidia.driver.value)
    elif not states:
        yield from _not_active(case)


def _not_active(case: Case) -> Iterator[Fault]:
    manager = case.facts.nvidia.fabric_manager
    driver = case.facts.nvidia.driver.value
    said = next(filter(None, map(_IS_DOWN.search, case.facts.notes)), None)
    if said is not None and not manager.active.value:
        yield _down(case, f"a note says: {said[0]}", "notes", driver)
        return
    if manager.version.is_absent or is_absent(case, _UNIT) or missed(case, _MANAGER):
        yield _down(case, "no fabric manager is installed", manager.version.at, driver)
        return
    if manager.active.known("nvidia.fabric_manager.active") is False:
        yield _down(case, "the fabric manager service is not active", manager.active.at, driver)


def _down(case: Case, state: str, at: str, driver: Version | None) -> Fault:
    return Fault(
        message=f"the cards are joined by NVSwitch, and {state}",
        evidence=(Evidence(state, at), _driver(case)),
        remedies=(_install(driver),),
        sources=("https://docs.nvidia.com/datacenter/tesla/fabric-manager-user-guide/",),
    )


def _modules_missing(case: Case) -> Iterator[Fault]:
    """A module that somebody looked for and did not find; most hosts need none of these."""
    if missed(case, _SUBNET):
        yield _down(case, "its subnet manager (nvlsm) is not there", "absent", None)
        return
    missing = [m for m in case.facts.host.modules_missing.value or () if m in _IB_MODULES]
    if missing:
        yield Fault(
            message="the switches of this board are managed over InfiniBand, "
            f"and {' and '.join(missing)} cannot be loaded",
            evidence=(
                Evidence(f"missing: {', '.join(missing)}", case.facts.host.modules_missing.at),
            ),
            remedies=(
                Remedy(
                    action="install the kernel's extra modules, load them, restart the service",
                    commands=(
                        "sudo apt-get install linux-modules-extra-$(uname -r)",
                        f"sudo modprobe -a {' '.join(missing)}",
                        f"sudo systemctl restart {_UNIT}",
                    ),
                ),
            ),
            sources=("https://github.com/NVIDIA/gpu-operator/issues/2781",),
        )


_IS_DOWN = re.compile(
    r"\bfabric[- ]?manager\S*(?: service)? (?:is |was |has )?"
    r"(?:(?:not|never) (?:been )?(?:installed|running|active|started|enabled|there)|inactive|"
    r"failed|disabled|stopped|dead)\b|\b(?:no|without) (?:nvidia-)?fabric[- ]?manager\b",
    re.IGNORECASE,
)
_MANAGER = re.compile(
    r"(?:nvidia[- ])?fabric[- ]?manager\S*(?: (?:service|unit|package))?", re.IGNORECASE
)
_SUBNET = re.compile(r"nvlsm(?:\.service)?|nvlink5?-\d*|libnvsdm\S*", re.IGNORECASE)
_IB_MODULES = ("mlx5_core", "mlx5_ib", "ib_umad", "ib_core", "ib_uverbs")


def _driver(case: Case) -> Evidence:
    reading = case.facts.nvidia.driver
    return Evidence(f"driver {reading.value or 'of unknown version'}", reading.at)


def _install(driver: Version | None) -> Remedy:
    wanted = f"{_UNIT}={driver}-*" if driver is not None and driver.is_exact else _UNIT
    return Remedy(
        action="install the fabric manager of exactly the driver's version, and start it",
        commands=(
            f"apt-cache search {_UNIT}  # the name may carry the branch",
            f"sudo apt-get install '{wanted}'",
            f"sudo systemctl enable --now {_UNIT}",
            f"sudo apt-mark hold {_UNIT}",
        ),
        role="nvidia_driver",
    )


RULES: tuple[Rule, ...] = (fabric_manager_not_of_driver, fabric_manager_not_running)
