"""What stands in the way of a driver, in words for a person. Pure.

Nothing here weighs versions of engines: that is the judge's part.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from doctor.facts import Device, Facts
from doctor.matrix import Matrix
from doctor.matrix.packaging import Family
from doctor.provision.driver.choose import MANAGER, Choice, Wish, set_members
from doctor.provision.driver.names import filled, role_of
from doctor.provision.driver.sets import OPEN, PROPRIETARY, DriverState, Simulation, upstream
from doctor.rules import cards

_FOREIGN = {
    "wsl2": "WSL has the driver of Windows: install it there, and none here",
    "jetson": "a Jetson's driver is part of its system: install another JetPack",
}


def of_host(facts: Facts, state: DriverState, uid: int) -> Iterator[str]:
    """What of the machine speaks against any change to its driver."""
    if uid != 0:
        yield "packages need root on that machine"
    platform = facts.host.platform.value
    if platform in _FOREIGN:
        yield _FOREIGN[platform]
    if state.manager != "apt":
        manager = state.manager or "no package manager that is known"
        yield f"{manager} is there: doctor changes drivers by apt alone, and writes out the rest"
    if state.runfile:
        yield (
            f"{state.runfile} is there: a driver was installed by NVIDIA's own installer. "
            "Run it with --uninstall, then plan again"
        )
    if state.broken:
        names = ", ".join(state.broken[:5])
        yield f"packages are in a broken state: {names}. Run dpkg --configure -a, then plan again"


def of_mixture(state: DriverState, family: Family) -> Iterator[str]:
    """Packages of one driver that come from several sources at several versions."""
    by_source: dict[str, set[str]] = {}
    for package in set_members(state.packages, family):
        by_source.setdefault(package.source, set()).add(upstream(package.version))
    found = sorted(by_source)
    for source in found[1:]:
        if not by_source[source] & by_source[found[0]]:
            yield (
                f"the driver is mixed from {found[0]} ({', '.join(by_source[found[0]])}) and "
                f"{source} ({', '.join(by_source[source])}): remove one of the two first"
            )


def modules_for(devices: Sequence[Device], wanted: str, matrix: Matrix) -> str:
    """The flavour for these cards: as wanted, else open but where a card cannot."""
    if wanted in (OPEN, PROPRIETARY):
        return wanted
    old = any(cards.shared(device, matrix, "open_modules") == "no" for device in devices)
    return PROPRIETARY if old else OPEN


def of_cards(devices: Sequence[Device], wish: Wish, matrix: Matrix) -> Iterator[str]:
    """Cards that the branch or the flavour of the modules would leave without a driver."""
    row = next((b for b in matrix.drivers.branches if b.branch == wish.branch), None)
    if row is not None and row.modules == OPEN and wish.modules == PROPRIETARY:
        yield f"branch {wish.branch} has open kernel modules only"
    for device in cards.distinct(tuple(devices)):
        name = cards.label(device, matrix)
        if not cards.branch_span(device, matrix).drives(wish.branch):
            yield f"branch {wish.branch} does not drive {name}"
        flavours = cards.shared(device, matrix, "open_modules")
        if flavours == "required" and wish.modules == PROPRIETARY:
            yield f"{name} needs the open kernel modules"
        if flavours == "no" and wish.modules == OPEN:
            yield f"{name} cannot run on the open kernel modules"


def of_users(state: DriverState) -> Iterator[str]:
    """Programs that have a GPU open while its driver is to be replaced."""
    if state.users:
        names = ", ".join(state.users[:5])
        yield f"programs use the GPUs: {names}. End them, or say --busy"


def of_simulation(
    answer: Simulation,
    choice: Choice,
    state: DriverState,
    family: Family,
    may_go: Sequence[str] = (),
) -> Iterator[str]:
    """What apt would do beyond what was asked: it fails, or removes what nothing replaces.

    `may_go` are names that give way to what goes beside the driver.
    """
    if answer.status:
        yield f"apt cannot install it: {answer.said or 'it does not say why'}"
        return
    coming = {role_of(c.name) for c in answer.installed}
    metas = {re.sub(r"\{\w+\}", "", name) for name in choice.scheme.metas}
    mine = re.compile("|".join((*family.names, *family.sources)))
    for name in answer.removed:
        there = state.package(name)
        is_meta = re.sub(r"\d{3}", "", name, count=1) in metas
        role = choice.scheme.renamed.get(role_of(name), role_of(name))
        if {role, role_of(name)} & coming or is_meta or name in may_go:
            continue
        what = "the driver's package " if there or mine.fullmatch(name) else ""
        yield f"apt would remove {what}{name}, and nothing takes its place"


def of_fabric(choice: Choice, wish: Wish) -> Iterator[str]:
    """Cards that are joined by NVSwitch answer nothing without a manager of that very version."""
    names = filled(choice.scheme.fabric.get(MANAGER, ""), wish.branch).split("|")
    asked = {word.partition("=")[0] for word in choice.words}
    if wish.fabric and not asked & set(names):
        yield (
            f"the cards are joined by NVSwitch, and no repository offers "
            f"{names[0] or 'a fabric manager'} at {choice.version}"
        )


def of_monitor(choice: Choice, wish: Wish, state: DriverState) -> Iterator[str]:
    """DCGM is wanted, and no repository has its packages for that CUDA line at one version."""
    asked = {word.partition("=")[0] for word in choice.words} | {p.name for p in state.packages}
    missing = [n for n in (wish.monitor.packages if wish.monitor else ()) if n not in asked]
    if missing:
        yield f"no repository offers {' and '.join(missing)} at one version, which DCGM needs"


def of_headers(choice: Choice, state: DriverState, answer: Simulation) -> Iterator[str]:
    """A module that is to be built needs the headers of the kernel that runs."""
    wanted = f"-{state.kernel}"
    if choice.signed or state.headers:
        return
    if not any(c.name.endswith(wanted) or "kernel-devel" in c.name for c in answer.installed):
        yield (
            f"headers of the running kernel {state.kernel} are neither there nor offered: "
            "boot a kernel whose headers are offered"
        )
