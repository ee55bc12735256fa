"""Names of driver packages: from a scheme to names, and which name took another's place. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable

from doctor.matrix.packaging import Scheme
from doctor.provision.driver.sets import OPEN

# Parts of a name that say which branch, flavour or line of builds, not what the package is for.
_BRANCH = re.compile(r"\d{3}(\.[\d.]+)?")
_VARIANTS = frozenset({"open", "server", "tesla"})


def filled(name: str, branch: int, kernel: str = "") -> str:
    """A name of a scheme with branch and kernel in it; alternatives stay apart by "|"."""
    flavour = kernel.rpartition("-")[2]
    return name.format(branch=branch, kernel=kernel, flavour=flavour)


def asked_for(scheme: Scheme, branch: int, modules: str, kernel: str, signed: bool) -> list[str]:
    """What to ask for, to compute with this flavour of the modules."""
    lists = {
        (True, False): scheme.open,
        (False, False): scheme.proprietary,
        (True, True): scheme.signed_open,
        (False, True): scheme.signed_proprietary,
    }
    return [filled(name, branch, kernel) for name in lists[modules == OPEN, signed]]


def role_of(name: str) -> str:
    """What a package is for, whatever its branch and flavour: one of a role replaces another."""
    parts = name.split("-")
    return "-".join(p for p in parts if p not in _VARIANTS and not _BRANCH.fullmatch(p))


def successor(name: str, candidates: Iterable[str], modules: str, branch: int) -> str:
    """The candidate that takes a package's place; "" if none has its role."""
    mine = [other for other in candidates if role_of(other) == role_of(name)]
    return max(mine, key=lambda other: _fit(other, name, modules, branch), default="")


def _fit(other: str, name: str, modules: str, branch: int) -> tuple[bool, bool, bool, int]:
    """The same name is best, then one of that branch and flavour, then the shortest."""
    parts = other.split("-")
    speaks_of_modules = "dkms" in parts or "kernel" in parts
    return (
        other == name,
        str(branch) in parts,
        not speaks_of_modules or ("open" in parts) == (modules == OPEN),
        -len(other),
    )
