"""From a choice, or from what is installed, to the goal of a driver. Pure."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Iterable, Sequence

from doctor.matrix.packaging import Family
from doctor.profile.schema import Profile
from doctor.provision.driver.choose import Choice, Shelf, Wish, set_members
from doctor.provision.driver.holding import (
    BLACKLIST,
    NOUVEAU,
    NOUVEAU_TEXT,
    PREFERENCES,
    blacklist_text,
    preferences_text,
)
from doctor.provision.driver.sets import (
    ADOPTED,
    HOME,
    NAME,
    OPEN,
    PROPRIETARY,
    DriverSet,
    DriverState,
    Package,
    Simulation,
    branch_of,
)
from doctor.provision.goal import SYSTEM, SYSTEMD, Goal, ManagedFile


def driver_goal(wanted: DriverSet) -> Goal:
    """The goal around a set: files that hold it where it is."""
    files = []
    held = [p for p in wanted.packages if p.name in wanted.holds]
    if held:
        files += [
            ManagedFile(PREFERENCES, preferences_text(held)),
            ManagedFile(BLACKLIST, blacklist_text([p.name for p in held])),
        ]
    if wanted.builds or wanted.needs_key:
        files.append(ManagedFile(NOUVEAU, NOUVEAU_TEXT))
    return Goal(
        profile=NAME,
        home=HOME,
        scope=SYSTEM,
        supervisor=SYSTEMD,
        driver=wanted,
        files=tuple(files),
        engine=NAME,
        version=wanted.version,
        lock="",
    )


def chosen_set(
    profile: Profile,
    wish: Wish,
    choice: Choice,
    answer: Simulation,
    shelf: Shelf,
) -> DriverSet:
    """What a simulated change leads to: its own packages, what they need, what goes."""
    after = _after(answer, shelf.state, shelf.offers)
    names = (*wish.companions, *profile.hold.packages)
    own, others = _parted(after, answer, choice, _belongs(shelf.family, names))
    replaced = [_offered(p, shelf.offers) for p in shelf.state.packages if _changes(p, answer)]
    return DriverSet(
        scheme=choice.scheme.id,
        branch=wish.branch,
        modules=wish.modules,
        version=choice.version,
        packages=tuple(own),
        needs=tuple(others),
        absent=answer.removed,
        held_too=profile.hold.packages,
        holds=_holds(profile, own, others),
        builds=not choice.signed,
        units=_units(own, wish.fabric, wish.monitor.units if wish.monitor else ()),
        replaced=tuple(p for p in replaced if p.sha256),
        patterns=_patterns(shelf.family),
    )


def _after(answer: Simulation, state: DriverState, offers: Sequence[Package]) -> list[Package]:
    """All that the change leaves installed of the family, and all that it brings."""
    moved = {c.name: c.new for c in answer.installed}
    kept = [p for p in state.packages if p.name not in moved and p.name not in answer.removed]
    fresh = [_row(name, version, state, offers) for name, version in moved.items()]
    return [*fresh, *(_offered(p, offers) for p in kept)]


def _row(name: str, version: str, state: DriverState, offers: Sequence[Package]) -> Package:
    rows = [p for p in offers if (p.name, p.version) == (name, version)]
    own = {p.arch for p in state.packages}
    rows = [p for p in rows if p.arch in own or p.arch == "all"] or rows
    return rows[0] if rows else Package(name=name, version=version, arch="")


def _offered(package: Package, offers: Sequence[Package]) -> Package:
    """The same package with the hash of its file where somebody offers it; else as it is."""
    key = (package.name, package.version, package.arch)
    same = (p for p in offers if (p.name, p.version, p.arch) == key)
    return next(same, package)


def _belongs(family: Family, beside: Sequence[str]) -> Callable[[Package], bool]:
    """Tell what is held with the driver: its family, and what goes beside it by name or pattern."""
    mine = re.compile("|".join((*family.names, *family.sources)))
    apart = re.compile("|".join(family.apart))

    def belongs(package: Package) -> bool:
        named = mine.fullmatch(package.name) or mine.fullmatch(package.source)
        if any(fnmatch.fnmatchcase(package.name, pattern) for pattern in beside):
            return True
        return bool(named and not apart.fullmatch(package.name))

    return belongs


def _parted(
    after: Iterable[Package],
    answer: Simulation,
    choice: Choice,
    belongs: Callable[[Package], bool],
) -> tuple[list[Package], list[Package]]:
    """The driver's own packages, and others that the change brings along.

    What the words ask for stands first, so that the first package carries the driver's version.
    """
    asked = [word.partition("=")[0] for word in choice.words]
    place = {name: number for number, name in enumerate(asked)}
    ordered = sorted(after, key=lambda p: (place.get(p.name, len(place)), p.name))
    own = [p for p in ordered if belongs(p)]
    names = {p.name for p in own}
    others = [p for p in ordered if p.name not in names and _is_new(p, answer)]
    return own, others


def _is_new(package: Package, answer: Simulation) -> bool:
    return any(c.name == package.name for c in answer.installed)


def _changes(package: Package, answer: Simulation) -> bool:
    return any(c.name == package.name for c in answer.changes)


def adopted_set(profile: Profile, version: str, state: DriverState, family: Family) -> DriverSet:
    """The driver that is installed, as it is."""
    members = set_members(state.packages, family)
    own = sorted(state.packages, key=lambda p: (p not in members, p.name))
    names = {p.name for p in own}
    # Who only holds a driver builds no module and starts no service.
    wants_it = profile.driver.policy == "install"
    is_open = any("open" in name.split("-") for name in names)
    return DriverSet(
        scheme=ADOPTED,
        branch=branch_of(version),
        modules=OPEN if is_open else PROPRIETARY,
        version=version,
        packages=tuple(own),
        held_too=profile.hold.packages,
        holds=_holds(profile, own, ()),
        builds=wants_it and any("dkms" in name for name in names),
        units=_units(own, False) if wants_it else (),
        patterns=_patterns(family),
    )


def _holds(profile: Profile, own: Iterable[Package], others: Iterable[Package]) -> tuple[str, ...]:
    """All of the driver, and of the rest what the profile names."""
    held = {p.name for p in own} if profile.hold.driver else set()
    for pattern in profile.hold.packages:
        held |= {p.name for p in (*own, *others) if fnmatch.fnmatchcase(p.name, pattern)}
    return tuple(sorted(held))


def _units(
    packages: Iterable[Package], switched: bool, more: tuple[str, ...] = ()
) -> tuple[str, ...]:
    """Services of NVIDIA's that come with these packages; one of them only for NVSwitch."""
    names = {p.name for p in packages}
    found = []
    if any(n == "nvidia-persistenced" or n.startswith("nvidia-compute-utils") for n in names):
        found.append("nvidia-persistenced.service")
    if switched and any(n.startswith("nvidia-fabricmanager") for n in names):
        found.append("nvidia-fabricmanager.service")
    return (*found, *more)


def _patterns(family: Family) -> tuple[str, str]:
    return "|".join((*family.names, *family.sources)), "|".join(family.apart)
