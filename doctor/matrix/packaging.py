"""Where drivers are had as packages: the domain `driver-packages`, and look-ups in it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from msgspec import Struct, field

from doctor.matrix.model import Row

if TYPE_CHECKING:
    from doctor.matrix.query import Matrix

DOMAIN = "driver-packages"
TOOLKIT, DCGM = "container-toolkit", "dcgm"


class Scheme(Row, frozen=True, kw_only=True):
    """How one origin names the packages of an NVIDIA driver on some distributions.

    `manager` is apt, dnf or zypper; `origin` "cuda" (NVIDIA's repository) or "distribution";
    `systems` are "ubuntu 24.04" as os-release says it. Branches from `first` to `last`
    (inclusive, None: open) go by these names. In all names {branch}, {kernel} (uname -r) and
    {flavour} (its suffix) are filled in.

    `open` and `proprietary` are what to ask for to compute, by kernel module; `signed_open`
    and `signed_proprietary` the same with modules that the distribution built and signed.
    `pinning` goes in first. `headers` are needed to build a module; `fabric` by component;
    `metas` are packages without content; the streams are those of dnf modules. `renamed` says
    which part goes under which name since. `verified` is False where nothing of it was run by
    doctor's tests.
    """

    id: str
    manager: str
    origin: str
    systems: tuple[str, ...]
    first: int | None = None
    last: int | None = None
    open: tuple[str, ...] = ()
    proprietary: tuple[str, ...] = ()
    signed_open: tuple[str, ...] = ()
    signed_proprietary: tuple[str, ...] = ()
    pinning: str = ""
    headers: tuple[str, ...] = ()
    fabric: dict[str, str] = field(default_factory=dict)
    metas: tuple[str, ...] = ()
    stream_open: str = ""
    stream_proprietary: str = ""
    renamed: dict[str, str] = field(default_factory=dict)
    module: str = "nvidia"
    persistence: str = "nvidia-persistenced"
    verified: bool = False


class Repository(Row, frozen=True, kw_only=True):
    """NVIDIA's repository for one system: its folder, and the end of its signing key's id."""

    system: str
    folder: str
    key: str = ""
    archs: tuple[str, ...] = ()
    keyring_sha256: str = ""


class Companion(Row, frozen=True, kw_only=True):
    """Packages that go beside the driver at one version of their own (container toolkit, DCGM).

    `floors` are the lowest versions of container engines that read its device descriptions.
    """

    name: str
    packages: tuple[str, ...]
    version: str = ""
    conflicts: tuple[str, ...] = ()
    units: tuple[str, ...] = ()
    floors: dict[str, str] = field(default_factory=dict)
    systems: tuple[str, ...] = ()


class Family(Row, frozen=True, kw_only=True):
    """What tells packages of a driver from others: regular expressions on name or source.

    `apart` look like it and are not; `loose` belong to it with versions of their own.
    """

    name: str
    sources: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    apart: tuple[str, ...] = ()
    loose: tuple[str, ...] = ()


class PackagingDomain(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Schemes in order of preference, repositories, companions, families of packages.

    `repository_url` is that of a repository's folder, with {folder} and {arch} in it; `arches`
    are its names for what uname says.
    """

    as_of: str
    repository_url: str = ""
    arches: dict[str, str] = field(default_factory=dict)
    schemes: tuple[Scheme, ...] = ()
    repositories: tuple[Repository, ...] = ()
    companions: tuple[Companion, ...] = ()
    package_families: tuple[Family, ...] = ()


def packaging(matrix: Matrix) -> PackagingDomain:
    """The domain."""
    domain: PackagingDomain = matrix.domain(DOMAIN)
    return domain


def schemes_for(matrix: Matrix, system: str, branch: int | None = None) -> tuple[Scheme, ...]:
    """Schemes of a system ("debian 12"), for that branch if one is named, best first."""
    return tuple(
        row
        for row in packaging(matrix).schemes
        if _is_of(system, row.systems) and (branch is None or _spans(row, branch))
    )


def _spans(row: Scheme, branch: int) -> bool:
    return (row.first is None or branch >= row.first) and (row.last is None or branch <= row.last)


def repository_for(matrix: Matrix, system: str) -> Repository | None:
    """NVIDIA's repository for a system, or None."""
    rows = packaging(matrix).repositories
    return next((row for row in rows if _is_of(system, (row.system,))), None)


def companion(matrix: Matrix, name: str) -> Companion:
    """The companion of that name; raises KeyError."""
    return {row.name: row for row in packaging(matrix).companions}[name]


def family(matrix: Matrix, name: str = "nvidia") -> Family:
    """The family of that name; raises KeyError."""
    return {row.name: row for row in packaging(matrix).package_families}[name]


def _is_of(system: str, listed: Iterable[str]) -> bool:
    """Tell whether a system is listed; "rhel 9" covers "rhel 9.4"."""
    return any(system == one or system.startswith(one + ".") for one in listed)
