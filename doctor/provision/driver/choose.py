"""Which packages to ask apt for: scheme, version, what takes the place of what is there. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence

from msgspec import Struct

from doctor.facts import Version
from doctor.matrix.packaging import Companion, Family, Scheme
from doctor.provision.driver.names import asked_for, filled, role_of, successor
from doctor.provision.driver.sets import DriverState, Package, branch_of, upstream

# Numbers that may be a branch: less is another kind of version, more is a date.
_BRANCHES = range(100, 10_000)
MANAGER = "fabricmanager"


class Wish(Struct, frozen=True, kw_only=True):
    """What is wanted: branch, lowest version, flavour of the modules.

    `version` is one that is locked. `signed`: the distribution should have signed the modules;
    `fabric`: the cards need a fabric manager. `beside` are packages that all go in at one
    version of their own, for containers; `monitor` is DCGM, None if it is not wanted.
    """

    branch: int
    modules: str
    minimum: str = ""
    version: str = ""
    signed: bool = False
    fabric: bool = False
    beside: tuple[str, ...] = ()
    monitor: Companion | None = None

    @property
    def companions(self) -> tuple[str, ...]:
        """Names of all that goes beside the driver."""
        return (*self.beside, *(self.monitor.packages if self.monitor else ()))


class Choice(Struct, frozen=True, kw_only=True):
    """What to ask apt for: `words` are name=version, `version` is the driver's own.

    Modules that the distribution has not built and `signed` are built on the machine.
    """

    scheme: Scheme
    version: str
    words: tuple[str, ...]
    signed: bool = False


class Shelf(Struct, frozen=True, kw_only=True):
    """What a choice is made from: what is there, what is offered, which names belong."""

    state: DriverState
    offers: tuple[Package, ...]
    family: Family


def order_key(version: str) -> tuple[tuple[object, ...], ...]:
    """Sorts versions as dpkg does: digits as numbers, "~" before the end, letters before signs."""
    epoch, _, rest = version.rpartition(":")
    main, _, revision = rest.rpartition("-") if "-" in rest else (rest, "", "0")
    return ((int(epoch or 0),), _parts(main), _parts(revision))


def _parts(text: str) -> tuple[object, ...]:
    found: list[object] = []
    for letters, digits in re.findall(r"(\D*)(\d*)", text):
        if letters or digits:
            found.append((*map(_weight, letters), 0))
            found.append(int(digits or 0))
    return (*found, (0,))


def _weight(letter: str) -> int:
    return -1 if letter == "~" else ord(letter) + (0 if letter.isalpha() else 256)


def set_members(packages: Iterable[Package], family: Family) -> list[Package]:
    """Installed packages that carry the driver's version, and must all carry the same one."""
    loose = re.compile("|".join(family.loose))
    mine = re.compile("|".join((*family.names, *family.sources)))
    return [
        p
        for p in packages
        if _BRANCHES.start <= branch_of(p.version) < _BRANCHES.stop
        and (mine.fullmatch(p.name) or mine.fullmatch(p.source))
        and not loose.fullmatch(p.name)
    ]


def driver_version(packages: Iterable[Package], family: Family) -> str:
    """The version that most packages of the set carry; "" if there are none."""
    found = Counter(upstream(p.version) for p in set_members(packages, family))
    return max(found, key=lambda v: (found[v], order_key(v)), default="")


def satisfies(version: str, wish: Wish) -> bool:
    """Tell whether a driver of that version is what is wanted."""
    found, floor = Version.maybe(version), Version.maybe(wish.minimum or None)
    if found is None or branch_of(version) != wish.branch:
        return False
    return floor is None or found.at_least(floor) is True


def choose(schemes: Sequence[Scheme], wish: Wish, shelf: Shelf) -> Choice | None:
    """The first scheme whose packages are all offered at one version that is wanted."""
    for scheme in schemes:
        # Built modules do as well, once a person has enrolled the key.
        for signed in (True, False) if wish.signed else (False,):
            choice = _of_scheme(scheme, wish, shelf, signed)
            if choice is not None:
                return choice
    return None


def _of_scheme(scheme: Scheme, wish: Wish, shelf: Shelf, signed: bool) -> Choice | None:
    names = asked_for(scheme, wish.branch, wish.modules, shelf.state.kernel, signed)
    if not names:
        return None
    for version in _versions(names[0], wish, shelf.offers):
        asked = _at_version(names, version, shelf)
        if asked is None:
            continue
        also = {p.name: p for p in asked}
        for package in _replaced(wish, version, shelf, also):
            also.setdefault(package.name, package)
        for package in _beside(scheme, wish, version, shelf):
            also.setdefault(package.name, package)
        words = [f"{p.name}={p.version}" for p in also.values()]
        if not (signed or shelf.state.headers):
            offered = {p.name for p in shelf.offers}
            words += [n for n in header_names(scheme, wish, shelf.state) if n in offered]
        return Choice(scheme=scheme, version=version, words=tuple(words), signed=signed)
    return None


def _versions(name: str, wish: Wish, offers: Sequence[Package]) -> list[str]:
    """Versions of the driver that are wanted and offered under that name, newest first."""
    found = {upstream(p.version): p.version for p in offers if p.name == name}
    wanted = [v for v in found if satisfies(v, wish) and wish.version in ("", v)]
    return sorted(wanted, key=lambda v: order_key(found[v]), reverse=True)


def _at_version(names: Sequence[str], version: str, shelf: Shelf) -> list[Package] | None:
    """All of them at that version; None if one is not offered so.

    What is loose, and modules for one kernel, have versions of their own.
    """
    free = re.compile("|".join((*shelf.family.loose, "linux-modules-nvidia-.*")))
    found = []
    for name in names:
        rows = [p for p in shelf.offers if p.name == name]
        exact = [p for p in rows if upstream(p.version) == version]
        rows = exact or (rows if free.fullmatch(name) else [])
        if not rows:
            return None
        found.append(newest(rows))
    return found


def newest(rows: Iterable[Package]) -> Package:
    """The row with the highest version."""
    return max(rows, key=lambda p: order_key(p.version))


def _replaced(wish: Wish, version: str, shelf: Shelf, asked: Iterable[str]) -> list[Package]:
    """What takes the place of each package of the set that is there now, one for each role."""
    there = [p for p in shelf.offers if upstream(p.version) == version]
    names = [*asked, *(p.name for p in there)]
    found = []
    for package in set_members(shelf.state.packages, shelf.family):
        name = successor(package.name, names, wish.modules, wish.branch)
        rows = [p for p in there if p.name == name and p.arch in (package.arch, "all")]
        found += [newest(rows)] if rows else []
    return found


def _beside(scheme: Scheme, wish: Wish, version: str, shelf: Shelf) -> list[Package]:
    """The pinning package, and parts of the fabric that are there or needed."""
    pinning = [scheme.pinning.format(branch=word) for word in (version, wish.branch)]
    rows = next((r for r in ([p for p in shelf.offers if p.name == n] for n in pinning) if r), [])
    return [
        *([newest(rows)] if rows else []),
        *_fabric(scheme, wish, version, shelf),
        *_companions(wish.beside, shelf),
        *_companions(wish.monitor.packages if wish.monitor else (), shelf),
    ]


def _companions(names: Sequence[str], shelf: Shelf) -> list[Package]:
    """What goes beside the driver; it stays as it is where it is there at one version."""
    there = [p for p in shelf.state.packages if p.name in names]
    is_whole = len(there) == len(names) and len({p.version for p in there}) == 1
    return [] if is_whole else at_one_version(names, shelf.offers)


def at_one_version(names: Sequence[str], offers: Sequence[Package]) -> list[Package]:
    """These packages at the newest version at which all are offered; none if there is none."""
    rows = [{p.version: p for p in offers if p.name == name} for name in names]
    common = set(rows[0]).intersection(*rows[1:]) if rows else set()
    version = max(common, key=order_key, default="")
    return [row[version] for row in rows] if version else []


def _fabric(scheme: Scheme, wish: Wish, version: str, shelf: Shelf) -> list[Package]:
    """Every part that is there moves along; a host with NVSwitch needs the manager."""
    there = {role_of(p.name) for p in shelf.state.packages}
    found = []
    for part, names in sorted(scheme.fabric.items()):
        candidates = filled(names, wish.branch).split("|")
        is_needed = wish.fabric and part == MANAGER
        if not is_needed and not there & {role_of(name) for name in candidates}:
            continue
        rows = [p for p in shelf.offers if p.name in candidates and upstream(p.version) == version]
        found += [newest(rows)] if rows else []
    return found


def header_names(scheme: Scheme, wish: Wish, state: DriverState) -> list[str]:
    """Headers of the kernel that runs, and what brings those of the next one."""
    return [filled(name, wish.branch, state.kernel) for name in scheme.headers]
