"""What of a driver that was applied is no longer so: holds, pins, versions, what follows them.

Only where a lock says what is expected; what is wrong with any driver is said by other rules.
"""

from __future__ import annotations

import fnmatch
import re
import shlex
from collections.abc import Iterator

from doctor.facts import Version
from doctor.facts.host import SystemPackage
from doctor.findings import Evidence, Remedy
from doctor.matrix import Matrix
from doctor.rules.engine import Case, Fault, NotApplicable, Rule, Severity, rule

_AGAIN = Remedy(
    action="bring back what was applied",
    commands=("doctor apply nvidia-driver",),
    role="driver_hold",
)
_APT = ("https://manpages.debian.org/bookworm/apt/apt-mark.8.en.html",)
_FABRIC = ("nvidia-fabricmanager", "nvidia-fabric-manager")


def _need(wanted: object, what: str) -> None:
    if not wanted:
        raise NotApplicable(f"no lock says {what}")


@rule("DFT101", cause="driver-unpinned", severity=Severity.WARNING)
def hold_lost(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """Packages of the driver that were held are not held any more.

    What: the holds that were applied against those of the package manager now.
    Why: a hold on some of the set is a trap: the next upgrade moves the others and splits
        library from module. apt clears a hold by itself where a person allowed it to change
        held packages.
    How to fix: apply the driver again; it holds the whole set.
    Silent when: no hold was applied, all are there, or nobody could read them.
    Sources: apt-mark manual page; measured with real packages.
    """
    wanted = case.expected.holds
    _need(wanted, "what is held")
    reading = case.facts.host.held_packages
    held = reading.known("host.held_packages")
    lost = [name for name in wanted if not _covers(held.holds, name)]
    if lost:
        which = "none of them is" if len(lost) == len(wanted) else f"{len(lost)} are not"
        yield Fault(
            message=f"{len(wanted)} packages of the driver were held, and {which} held now: "
            f"{_some(lost)}",
            evidence=(Evidence(f"held: {_some(held.holds) or 'nothing'}", reading.at),),
            remedies=(_AGAIN, _hold(lost)),
            sources=_APT,
        )


def _hold(names: list[str]) -> Remedy:
    words = f"sudo apt-mark hold {shlex.join(names)}"
    return Remedy(action="or hold them by hand", commands=(words,), role="driver_hold")


@rule("DFT102", cause="driver-unpinned", severity=Severity.WARNING)
def pin_lost(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """Preferences that pinned the driver's packages to a version are gone.

    What: the packages that were pinned against the patterns that are pinned now.
    Why: a pin keeps a newer version from being chosen at all, also where a hold was let go;
        without it one careless upgrade is enough.
    How to fix: apply the driver again.
    Silent when: no pin was applied, a pattern covers each of them, or nobody could read them.
    Sources: apt_preferences manual page; measured with real packages.
    """
    wanted = case.expected.pins
    _need(wanted, "what is pinned")
    reading = case.facts.host.held_packages
    pins = reading.known("host.held_packages").pins
    lost = [name for name in wanted if not _covers(pins, name)]
    if lost:
        yield Fault(
            message=f"{len(lost)} of {len(wanted)} packages of the driver are no longer pinned: "
            f"{_some(lost)}",
            evidence=(Evidence(f"pinned: {_some(pins) or 'nothing'}", reading.at),),
            remedies=(_AGAIN,),
            sources=("https://manpages.debian.org/bookworm/apt/apt_preferences.5.en.html",),
        )


@rule("DFT103", cause="driver-library-mismatch", severity=Severity.ERROR)
def driver_set_split(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """Some packages of the driver have moved and others have not.

    What: the installed version of each package against the one that was applied.
    Why: module and libraries speak a private protocol and must be of one version; a set
        that is split works until the next program starts, or the next boot.
    How to fix: apply the driver again, which moves the whole set in one transaction.
    Silent when: all packages are as applied, or all have moved (another rule says so).
    Sources: NVIDIA open-gpu-kernel-modules, version check of the client interface; measured
        with real packages.
    """
    moved, there = _moved(case)
    if moved and len(moved) < there:
        yield Fault(
            message=f"{len(moved)} of {there} packages of the driver are not the ones that were "
            f"applied: {_some(moved)}",
            evidence=(Evidence("installed packages", case.facts.host.packages.at),),
            remedies=(_AGAIN,),
        )


@rule("DFT104", cause="driver-unpinned", severity=Severity.WARNING)
def driver_moved(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """All packages of the driver are of another version than the one that was applied.

    What: the installed version of each package against the one that was applied.
    Why: somebody or something upgraded the driver; what runs on it was not proven with it.
    How to fix: apply the driver again, or apply a profile that wants the new version.
    Silent when: one package at least is as applied.
    Sources: the lock of the machine.
    """
    moved, there = _moved(case)
    if moved and len(moved) == there:
        yield Fault(
            message=f"the driver is another than the one that was applied: {_some(moved)}",
            evidence=(Evidence("installed packages", case.facts.host.packages.at),),
            remedies=(_AGAIN,),
        )


@rule("DFT105", cause="fabricmanager-mismatch", severity=Severity.ERROR)
def fabric_manager_apart(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """The package of the fabric manager is of another version than the driver that was applied.

    What: the installed fabric manager against the version of the driver, to the last digit.
    Why: no dependency ties the two, so an upgrade moves one alone; the manager then refuses
        to start, and every CUDA call answers 802.
    How to fix: apply the driver again; it moves both and holds both.
    Silent when: no fabric manager is part of what was applied.
    Sources: NVIDIA Fabric Manager user guide; gpu-driver-container issue 735.
    """
    version = case.expected.driver
    names = [n for n, _ in case.expected.packages if n.startswith(_FABRIC)]
    _need(version and names, "that a fabric manager belongs to the driver")
    reading = case.facts.host.packages
    for package in reading.known("host.packages"):
        if package.name not in names or version is None:
            continue
        found = Version.maybe(_upstream(package.version))
        if found is not None and found.same_as(version) is False:
            yield Fault(
                message=f"{package.name} {package.version} does not belong to driver {version}",
                evidence=(Evidence(f"{package.name} {package.version}", reading.at),),
                remedies=(_AGAIN,),
                sources=("https://docs.nvidia.com/datacenter/tesla/fabric-manager-user-guide/",),
            )


@rule("DFT106", cause="container-runtime", severity=Severity.ERROR)
def cdi_of_older_driver(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """The description of devices for containers names files of another driver.

    What: the driver version in the CDI description against the driver that was applied.
    Why: it lists files by name; containers that start after a change of the driver do not
        find them. Newer engines use it for every request for GPUs.
    How to fix: let the toolkit write it anew.
    Silent when: there is no description, or it names the driver that was applied.
    Sources: NVIDIA Container Toolkit documentation, CDI support.
    """
    version = case.expected.driver
    _need(version, "which driver is expected")
    box = case.facts.container_engine
    described = box.value.cdi_driver.value if box.value else None
    if described is None or version is None:
        raise NotApplicable("no description of devices")
    if described.same_as(version) is False:
        yield Fault(
            message=f"containers are given files of driver {described}, and {version} was applied",
            evidence=(Evidence(f"CDI: libraries of {described}", _at(case)),),
            remedies=(
                Remedy(
                    action="write the description anew",
                    commands=("sudo systemctl restart nvidia-cdi-refresh.service",),
                    role="nvidia_container_toolkit",
                ),
            ),
            sources=("https://docs.nvidia.com/datacenter/cloud-native/container-toolkit/",),
        )


def _at(case: Case) -> str:
    box = case.facts.container_engine.value
    return box.cdi_driver.at if box else ""


@rule("DFT107", cause="driver-unpinned", severity=Severity.WARNING)
def upgrades_reach_driver(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """Automatic upgrades are on, and do not pass over the driver any more.

    What: the list of packages that automatic upgrades leave alone, against the driver's.
    Why: with a hold lost as well, the next night moves the driver under what runs.
    How to fix: apply the driver again; it writes the list anew.
    Silent when: automatic upgrades are off or not known, or pass over all of it.
    Sources: unattended-upgrades documentation, Package-Blacklist.
    """
    wanted = case.expected.holds
    _need(wanted, "what is held")
    reading = case.facts.host.automatic_upgrades
    upgrades = reading.present("host.automatic_upgrades")
    if upgrades is None or not upgrades.enabled:
        return
    reached = [name for name in wanted if not _passed_over(upgrades.blacklist, name)]
    if reached:
        yield Fault(
            message=f"{upgrades.tool or 'automatic upgrades'} would not pass over {len(reached)} "
            f"packages of the driver: {_some(reached)}",
            evidence=(Evidence("automatic upgrades are on", reading.at),),
            remedies=(_AGAIN,),
            sources=("https://github.com/mvo5/unattended-upgrades",),
        )


def _moved(case: Case) -> tuple[list[str], int]:
    """Packages at another version than expected or gone, as words; and how many are expected."""
    wanted = case.expected.packages
    _need(wanted, "which packages are expected")
    found = {p.name: p for p in case.facts.host.packages.known("host.packages")}
    moved = [_difference(name, version, found.get(name)) for name, version in wanted]
    return [text for text in moved if text], len(wanted)


def _difference(name: str, version: str, found: SystemPackage | None) -> str:
    if found is None:
        return f"{name} is gone"
    return "" if found.version == version else f"{name} is {found.version}, not {version}"


def _upstream(version: str) -> str:
    """The part of a package's version that is the driver's: no epoch, no revision."""
    return re.split(r"[-+~]", version.rpartition(":")[2])[0]


def _covers(patterns: tuple[str, ...], name: str) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


def _passed_over(blacklist: tuple[str, ...], name: str) -> bool:
    """unattended-upgrades takes regular expressions that match from the start of the name."""
    for pattern in blacklist:
        try:
            if re.match(pattern, name):
                return True
        except re.error:
            continue
    return False


def _some(names: tuple[str, ...] | list[str]) -> str:
    more = f" and {len(names) - 4} more" if len(names) > 4 else ""
    return ", ".join(names[:4]) + more


RULES: tuple[Rule, ...] = (
    hold_lost,
    pin_lost,
    driver_set_split,
    driver_moved,
    fabric_manager_apart,
    cdi_of_older_driver,
    upgrades_reach_driver,
)
