"""From a driver that shall be and what is there to steps. Pure.

The order of a change: fetch everything, the way back too; let go of holds and move the pins;
change the packages in one transaction that can take nothing from elsewhere; hold again; prove.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from doctor.provision.driver.choose import order_key
from doctor.provision.driver.holding import DAEMON
from doctor.provision.driver.services import container_steps, service_steps
from doctor.provision.driver.sets import DriverSet, DriverState, Package
from doctor.provision.driver.telling import driver_variables, file_diffs, present
from doctor.provision.goal import Goal
from doctor.provision.step import EXACT, NEEDS_REBOOT, NONE, PERSON, FileDiff, Step
from doctor.provision.survey import State

_REPOSITORIES = ("/etc/apt/sources.list.d/", "/usr/share/keyrings/")
_SETTINGS = ("/etc/apt/preferences.d/", "/etc/apt/apt.conf.d/", "/etc/modprobe.d/")


def driver_steps(goal: Goal, state: State) -> tuple[Step, ...]:
    """What is to be done; nothing if the machine is just so."""
    wanted, there = goal.driver, state.driver
    if wanted is None or there is None:
        return ()
    moved = to_install(wanted, there)
    # What was broken off before it was installed is there once dpkg has finished it.
    traces = {*there.broken, *(there.debris if wanted.purges else ())}
    gone = [n for n in wanted.absent if there.package(n) or n in traces]
    steps = [
        *_repair(there),
        *_key(wanted, there, moved),
        *_fetch(wanted, there, moved, gone),
        *_repositories(goal, state),
        *_release(goal, state, moved, gone),
        *_install(wanted, there, moved, gone),
        *_module(wanted, there, moved),
        *_hold(goal, state, moved, gone),
        *container_steps(wanted, _text(state, DAEMON), moved),
        *service_steps(wanted, there, moved, reboots(wanted, there, moved)),
    ]
    if not steps:
        return ()
    return (*_rebooting(steps, wanted, there, moved), _verify(wanted))


def _text(state: State, path: str) -> str | None:
    there = state.files.get(path)
    return there.text if there else None


def to_install(wanted: DriverSet, there: DriverState) -> list[Package]:
    """Packages that are not there at the version that is wanted, and helpers that are too old."""
    found = []
    for package in wanted.packages:
        now = there.package(package.name)
        if now is None or now.version != package.version:
            found.append(package)
    for package in wanted.needs:
        now = there.package(package.name)
        if now is None or order_key(now.version) < order_key(package.version):
            found.append(package)
    return found


def lost(wanted: DriverSet, there: DriverState, moved: Sequence[Package]) -> list[Package]:
    """What is there now and would be replaced or taken away: the way back needs it."""
    names = ({p.name for p in moved} | set(wanted.absent)) - {p.name for p in wanted.needs}
    return [wanted.with_hash(p) for p in there.packages if p.name in names]


def _repair(there: DriverState) -> list[Step]:
    unsure = (*there.broken, *there.leaving)
    if not unsure:
        return []
    return [
        Step(
            name="finish_packages",
            role="nvidia_driver",
            title="let dpkg finish what was interrupted",
            reason=f"a change was broken off: {', '.join(unsure[:5])}",
            risk="none: nothing else is installed or removed",
            variables={
                "nvidia_driver_state": "repaired",
                "nvidia_driver_kept": list(there.leaving),
            },
        )
    ]


def _key(wanted: DriverSet, there: DriverState, moved: Sequence[Package]) -> list[Step]:
    """Only where the firmware checks signatures is `builds` a matter for a person."""
    if not (wanted.needs_key and moved) or there.key_enrolled:
        return []
    return [
        Step(
            name="enrol_key",
            role="",
            title="enrol the key by which this machine signs the modules that it builds",
            reason="Secure Boot is on, and a module that it does not trust is not loaded. At the "
            "machine: dkms generate_mok; mokutil --import /var/lib/dkms/mok.pub; boot, confirm "
            "with the password at the blue screen; then doctor apply nvidia-driver --resume",
            actor=PERSON,
            undo=NONE,
        )
    ]


def _fetch(
    wanted: DriverSet, there: DriverState, moved: Sequence[Package], gone: Sequence[str]
) -> list[Step]:
    back = [p for p in lost(wanted, there, moved) if p.sha256]
    rows = [*moved, *back]
    if not rows or not (moved or gone):
        return []
    size = sum(p.size for p in rows) >> 20
    return [
        Step(
            name="fetch_packages",
            role="nvidia_driver",
            title=f"fetch {len(moved)} packages and {len(back)} for the way back ({size} MiB)",
            reason="a change that has begun must not wait for a network",
            variables=driver_variables("fetched", wanted, rows, ()),
        )
    ]


def _repositories(goal: Goal, state: State) -> list[Step]:
    diffs = file_diffs(goal, state, _REPOSITORIES)
    if not diffs:
        return []
    return [
        Step(
            name="lay_repositories",
            role="repositories",
            title="let the machine know where the driver comes from",
            reason="; ".join(f"{d.path} differs" for d in diffs),
            diffs=tuple(diffs),
            variables={
                "repositories_files": present(goal, diffs),
                "repositories_remove": [d.path for d in diffs if d.after is None],
            },
        )
    ]


def _release(goal: Goal, state: State, moved: Sequence[Package], gone: Sequence[str]) -> list[Step]:
    """A hold beats a pin, so whatever moves is let go first, and the pins point ahead."""
    there = state.driver
    if there is None or not (moved or gone):
        return []
    held = sorted(set(there.holds) & {*(p.name for p in moved), *gone})
    # What somebody else's program was told is brought back with the rest.
    others = (DAEMON,) if goal.driver and goal.driver.purges else ()
    diffs = file_diffs(goal, state, (*_SETTINGS, *others))
    if not held and not diffs:
        return []
    return [
        Step(
            name="release_hold",
            role="driver_hold",
            title=f"let go of {len(held)} held packages and move the pins",
            reason="a held package stays where it is whatever the pins say",
            risk="until they are held again an upgrade by somebody else could move them",
            diffs=tuple(diffs),
            variables={
                "driver_hold_release": held,
                "driver_hold_files": present(goal, diffs),
                "driver_hold_remove": [d.path for d in diffs if d.after is None],
            },
        )
    ]


def _install(
    wanted: DriverSet, there: DriverState, moved: Sequence[Package], gone: Sequence[str]
) -> list[Step]:
    if not moved and not gone:
        return []
    undo, why = _undo(wanted, there, moved)
    what = f"install {len(moved)} packages of driver {wanted.version}" if moved else ""
    less = f"take {len(gone)} away" if gone else ""
    return [
        Step(
            name="install_driver",
            role="nvidia_driver",
            title=" and ".join(filter(None, (what, less))),
            reason=_reason(there, moved, gone),
            risk=f"programs that start now and use a GPU may fail until it is proven{why}",
            undo=undo,
            downtime="until the machine has booted" if reboots(wanted, there, moved) else "",
            variables=driver_variables("installed", wanted, moved, gone),
        )
    ]


def _undo(wanted: DriverSet, there: DriverState, moved: Sequence[Package]) -> tuple[str, str]:
    final = [p.name for p in lost(wanted, there, moved) if not p.sha256]
    if final:
        names = ", ".join(final[:4])
        return NONE, f"; cannot be taken back: nobody offers {names} as installed now any more"
    return (NEEDS_REBOOT, "") if reboots(wanted, there, moved) else (EXACT, "")


def _reason(there: DriverState, moved: Sequence[Package], gone: Sequence[str]) -> str:
    first = next(iter(moved), None)
    if first is None:
        return f"{', '.join(gone[:3])} was not there before"
    now = there.package(first.name)
    state = f"is {now.version}" if now else "is not there"
    return f"{first.name} {state}, and {first.version} is wanted"


def _module(wanted: DriverSet, there: DriverState, moved: Sequence[Package]) -> list[Step]:
    """All packages are there and the kernel that runs has no module: packages hide that."""
    if moved or not wanted.builds or not wanted.packages:
        return []
    if wanted.version in there.modules.values():
        return []
    return [
        Step(
            name="build_module",
            role="nvidia_driver",
            title=f"build the module for kernel {there.kernel}",
            reason="the packages are installed, but this kernel has no module of that version",
            variables=driver_variables("built", wanted, (), ()),
        )
    ]


def _hold(goal: Goal, state: State, moved: Sequence[Package], gone: Sequence[str]) -> list[Step]:
    wanted, there = goal.driver, state.driver
    if wanted is None or there is None:
        return []
    loose = sorted(set(wanted.holds) - set(there.holds))
    # What was held and is to be installed anew has just been let go.
    again = sorted(set(wanted.holds) & {p.name for p in moved})
    extra = sorted((set(there.holds) & set(wanted.names)) - set(wanted.holds))
    early = bool(moved or gone)
    diffs = [] if early else file_diffs(goal, state, _SETTINGS)
    diffs += file_diffs(goal, state, (f"{goal.home}/",))
    if not (loose or again or extra or diffs):
        return []
    names = sorted({*loose, *again})
    return [
        Step(
            name="hold_driver",
            role="driver_hold",
            title=f"hold {len(names)} packages and write down what is applied",
            reason=_why_hold(loose, extra, diffs) or "they have just been let go",
            diffs=tuple(diffs),
            variables={
                "driver_hold_hold": names,
                "driver_hold_release": extra,
                "driver_hold_files": present(goal, diffs),
                "driver_hold_remove": [d.path for d in diffs if d.after is None],
            },
        )
    ]


def _why_hold(loose: Sequence[str], extra: Sequence[str], diffs: Sequence[FileDiff]) -> str:
    parts = [f"not held: {', '.join(loose[:3])}"] if loose else []
    parts += [f"held without need: {', '.join(extra[:3])}"] if extra else []
    parts += [f"{diff.path} differs" for diff in diffs]
    return "; ".join(parts)


def reboots(wanted: DriverSet, there: DriverState, moved: Sequence[Package]) -> bool:
    """Tell whether the machine must boot before the new driver can be proven."""
    changes = bool(moved) and wanted.version != there.loaded
    return changes and bool(there.loaded or there.nouveau)


def _rebooting(
    steps: list[Step], wanted: DriverSet, there: DriverState, moved: Sequence[Package]
) -> list[Step]:
    """The last change is the one after which the machine boots."""
    if not reboots(wanted, there, moved):
        return steps
    return [*steps[:-1], msgspec.structs.replace(steps[-1], reboots=True)]


def _verify(wanted: DriverSet) -> Step:
    return Step(
        name="verify",
        role="nvidia_driver",
        title="ask the machine: packages, module, library, fabric manager, devices",
        reason="the state of a package proves no driver",
        variables=driver_variables("verified", wanted, wanted.packages, wanted.absent),
    )
