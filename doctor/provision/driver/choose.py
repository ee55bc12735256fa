"""Which packages to ask apt for: scheme, version, and what takes the place of what is there. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence

from msgspec import Struct

from doctor.facts import Version
from doctor.matrix.packaging import Family, Scheme
from doctor.provision.driver.names import asked_for, fabric_names, filled, successor
from doctor.provision.driver.sets import DriverState, Package, branch_of, upstream


# Numbers that may be a branch: less is another kind of version, more is a date.
_BRANCHES = range(100, 10_000)


class Wish(Struct, frozen=True, kw_only=True):
    """What is wanted: branch, lowest version, flavour; whether the distribution must have signed
    the modules, whether the cards need a fabric manager. `version` is one that is locked.
    """

    branch: int
    modules: str
    minimum: str = ""
    version: str = ""
    signed: bool = False
    fabric: bool = False


class Choice(Struct, frozen=True, kw_only=True):
    """What to ask apt for: `words` are name=version, `version` is the driver's own.

    Modules that the distribution has not built and `signed` are built on the machine.
    """

    scheme: Scheme
    version: str
    words: tuple[str, ...]
    signed: bool = False


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
    return floor is None or floor <= found


def choose(
    schemes: Sequence[Scheme],
    wish: Wish,
    state: DriverState,
    offers: Sequence[Package],
    family: Family,
) -> Choice | None:
    """The first scheme whose packages are all offered at one version that is wanted."""
    for scheme in schemes:
        # Built modules do as well, once a person has enrolled the key.
        for signed in (True, False) if wish.signed else (False,):
            choice = _of_scheme(scheme, wish, state, offers, family, signed)
            if choice is not None:
                return choice
    return None


def _of_scheme(
    scheme: Scheme,
    wish: Wish,
    state: DriverState,
    offers: Sequence[Package],
    family: Family,
    signed: bool,
) -> Choice | None:
    names = asked_for(scheme, wish.branch, wish.modules, state.kernel, signed)
    if not names:
        return None
    for version in _versions(names[0], wish, offers):
        asked = _at_version(names, version, offers, family)
        if asked is None:
            continue
        also = {p.name: p for p in asked}
        for package in _replaced(state, version, wish, offers, family, also.values()):
            also.setdefault(package.name, package)
        for package in _beside(scheme, wish, state, version, offers):
            also.setdefault(package.name, package)
        words = [f"{p.name}={p.version}" for p in also.values()]
        if not (signed or state.headers):
            words += header_names(scheme, wish, state, offers)
        return Choice(scheme=scheme, version=version, words=tuple(words), signed=signed)
    return None


def _versions(name: str, wish: Wish, offers: Sequence[Package]) -> list[str]:
    """Versions of the driver that are wanted and offered under that name, newest first."""
    found = {upstream(p.version): p.version for p in offers if p.name == name}
    wanted = [v for v in found if satisfies(v, wish) and wish.version in ("", v)]
    return sorted(wanted, key=lambda v: order_key(found[v]), reverse=True)


def _at_version(
    names: Sequence[str], version: str, offers: Sequence[Package], family: Family
) -> list[Package] | None:
    """All of them at that version; None if one is not offered so.

    What is loose, and modules for one kernel, have versions of their own.
    """
    free = re.compile("|".join((*family.loose, "linux-modules-nvidia-.*")))
    found = []
    for name in names:
        rows = [p for p in offers if p.name == name]
        exact = [p for p in rows if upstream(p.version) == version]
        rows = exact or (rows if free.fullmatch(name) else [])
        if not rows:
            return None
        found.append(newest(rows))
    return found


def newest(rows: Iterable[Package]) -> Package:
    """The row with the highest version."""
    return max(rows, key=lambda p: order_key(p.version))


def _replaced(
    state: DriverState,
    version: str,
    wish: Wish,
    offers: Sequence[Package],
    family: Family,
    asked: Iterable[Package],
) -> list[Package]:
    """What takes the place of each package of the set that is there now, one for each role."""
    there = [p for p in offers if upstream(p.version) == version]
    names = [p.name for p in asked] + [p.name for p in there]
    found = []
    for package in set_members(state.packages, family):
        name = successor(package.name, names, wish.modules, wish.branch)
        rows = [p for p in there if p.name == name and p.arch in (package.arch, "all")]
        found += [newest(rows)] if rows else []
    return found


def _beside(
    scheme: Scheme, wish: Wish, state: DriverState, version: str, offers: Sequence[Package]
) -> list[Package]:
    """The pinning package, and parts of the fabric that are there or needed."""
    found = []
    pinning = [filled(scheme.pinning, n) for n in (version, wish.branch)] if scheme.pinning else []  # type: ignore[arg-type]
    rows = next((r for r in ([p for p in offers if p.name == n] for n in pinning) if r), [])
    found += [newest(rows)] if rows else []
    there = {p.name for p in state.packages} & set(fabric_names(scheme, wish.branch))
    needed = set(scheme.fabric) if there else ({"fabricmanager"} if wish.fabric else set())
    for part in sorted(needed):
        for name in filled(scheme.fabric[part], wish.branch).split("|"):
            rows = [p for p in offers if p.name == name and upstream(p.version) == version]
            if rows and (wish.fabric or name in there):
                found.append(newest(rows))
                break
    return found


def header_names(
    scheme: Scheme, wish: Wish, state: DriverState, offers: Sequence[Package] | None = None
) -> list[str]:
    """Headers of the kernel that runs, and what brings those of the next one."""
    names = [filled(name, wish.branch, state.kernel) for name in scheme.headers]
    return [n for n in names if offers is None or any(p.name == n for p in offers)]
