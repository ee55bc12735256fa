"""The driver's packages as data: what shall be, what is there, what is offered, what apt would do.

Part of goals and states, so it must be possible to keep all of it.
"""

from __future__ import annotations

from msgspec import Struct, field
from msgspec.structs import replace

NAME = "nvidia-driver"
HOME = "/opt/doctor/nvidia-driver"
OPEN, PROPRIETARY = "open", "proprietary"
# In place of a scheme: what is there was taken as it is.
ADOPTED = "installed"


class Package(Struct, frozen=True, kw_only=True):
    """One package at one version; `sha256` is "" where the file cannot be had any more.

    `source` is the source package, `origin` the file's place in its repository.
    """

    name: str
    version: str
    arch: str
    source: str = ""
    sha256: str = ""
    size: int = 0
    origin: str = ""


class DriverSet(Struct, frozen=True, kw_only=True):
    """What of the driver shall be on a machine.

    `packages` are its own, each at just that version; `needs` are others (dkms, headers), at
    that version or a later one. `absent` must not be there, `holds` must be held. `version` is
    the driver's own ("580.95.05"). `builds` tells whether the machine compiles the kernel
    module (DKMS), `needs_key` whether its firmware then asks for a signature. `replaced` are
    packages as they were before, where their files can be had. `patterns` tell names of the
    family, and names that only look so. Without a `scheme` it is what was there before
    doctor came. `purges` tells that settings of what is absent go too: on the way back;
    `starts` that there are cards, so that modules and services can be started. `engine` is the
    container engine that is to hand GPUs to containers, "" for none. `held_too` are patterns
    of other packages that a profile holds.
    """

    scheme: str
    branch: int
    modules: str
    version: str
    packages: tuple[Package, ...]
    absent: tuple[str, ...] = ()
    holds: tuple[str, ...] = ()
    needs: tuple[Package, ...] = ()
    builds: bool = False
    needs_key: bool = False
    units: tuple[str, ...] = ()
    replaced: tuple[Package, ...] = ()
    patterns: tuple[str, str] = ("", "")
    purges: bool = False
    starts: bool = False
    engine: str = ""
    held_too: tuple[str, ...] = ()

    @property
    def all_names(self) -> tuple[str, ...]:
        """Names of all packages that the set speaks of."""
        rows = (*self.packages, *self.needs)
        return (*(package.name for package in rows), *self.absent)

    def with_hash(self, package: Package) -> Package:
        """The same package at the same version with the hash of its file, if that is known."""
        known = (*self.replaced, *self.packages, *self.needs)
        same = (p for p in known if (p.name, p.version) == (package.name, package.version))
        return next(same, package)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the packages."""
        return tuple(package.name for package in self.packages)

    def package(self, name: str) -> Package | None:
        """The package of that name, or None."""
        return next((p for p in self.packages if p.name == name), None)


class DriverState(Struct, frozen=True, kw_only=True):
    """What was found: packages of the driver's family, holds, broken packages, modules.

    `modules` gives by file the version that it states, for the kernel that runs, `signers` who
    signed it ("" for nobody); `loaded` is the version of the one that is loaded. `users` are
    programs that have a GPU open, `runfile` a trace of NVIDIA's own installer, `debris`
    packages that only left files, `leaving` installed ones that the next run of apt removes.
    """

    manager: str = ""
    kernel: str = ""
    packages: tuple[Package, ...] = ()
    debris: tuple[str, ...] = ()
    holds: tuple[str, ...] = ()
    broken: tuple[str, ...] = ()
    leaving: tuple[str, ...] = ()
    auto: tuple[str, ...] = ()
    modules: dict[str, str] = field(default_factory=dict)
    signers: dict[str, str] = field(default_factory=dict)
    headers: bool = False
    loaded: str = ""
    nouveau: bool = False
    runfile: str = ""
    users: tuple[str, ...] = ()
    free_mib: int = 0
    units: dict[str, dict[str, str]] = field(default_factory=dict)
    key_enrolled: bool = False

    @property
    def relevant(self) -> DriverState:
        """What of it decides the steps."""
        return replace(self, users=(), free_mib=0)

    def package(self, name: str) -> Package | None:
        """The installed package of that name, or None."""
        return next((p for p in self.packages if p.name == name), None)


class Change(Struct, frozen=True):
    """What apt would do to one package: install or remove it."""

    action: str
    name: str
    old: str = ""
    new: str = ""


class Simulation(Struct, frozen=True, kw_only=True):
    """apt's answer to a question: what it would change, or why it cannot."""

    changes: tuple[Change, ...] = ()
    kept: tuple[str, ...] = ()
    status: int = 0
    said: str = ""

    @property
    def removed(self) -> tuple[str, ...]:
        """Names that it would remove."""
        return tuple(c.name for c in self.changes if c.action == "remove")

    @property
    def installed(self) -> tuple[Change, ...]:
        """What it would install or move to another version."""
        return tuple(c for c in self.changes if c.action == "install")


def upstream(version: str) -> str:
    """The driver's own version in a package's: "1:580.95.05-0ubuntu1" is of 580.95.05."""
    plain = version.partition(":")[2] if ":" in version else version
    return plain.partition("-")[0].partition("+")[0].partition("~")[0]


def branch_of(version: str) -> int:
    """The branch in a package's version, 0 if there is none."""
    head = upstream(version).partition(".")[0]
    return int(head[:9]) if head.isdecimal() else 0
