"""Offers, states and facts for tests of the choice and the planner."""

from __future__ import annotations

from typing import Any

import msgspec

from doctor.facts import Device, Facts, seen
from doctor.facts.host import HostFacts, OsRelease
from doctor.matrix import Matrix, load_matrix
from doctor.matrix.packaging import family
from doctor.profile.schema import Accelerator, Driver, Hold, Monitoring, Profile
from doctor.provision.driver.choose import Shelf, Wish
from doctor.provision.driver.companions import monitor
from doctor.provision.driver.sets import DriverSet, DriverState, Package
from tests.provision.driver.repository import Deb

MATRIX: Matrix = load_matrix()
FAMILY = family(MATRIX)
PROFILE = Profile(
    schema="doctor/profile/v1",
    name="cluster-driver",
    accelerator=Accelerator(vendor="nvidia"),
    driver=Driver(policy="install", branch=580),
    hold=Hold(driver=True),
    monitoring=Monitoring(dcgm=True),
)
DCGM = monitor(PROFILE, MATRIX)
WISH = Wish(branch=580, modules="open")


def rows(*debs: Deb) -> tuple[Package, ...]:
    """Packages as an index shows them."""
    return tuple(
        Package(
            name=d.name,
            version=d.version,
            arch="amd64",
            source=d.source or d.name,
            sha256=f"{number:064x}",
            size=1 << 20,
        )
        for number, d in enumerate(debs, 1)
    )


def package(name: str, version: str, source: str = "") -> Package:
    """One installed package."""
    return Package(name=name, version=version, arch="amd64", source=source or name)


def state(*packages: Package, **more: Any) -> DriverState:
    """A machine with headers for its kernel."""
    found = DriverState(manager="apt", kernel="6.8.0-31-generic", headers=True, packages=packages)
    return msgspec.structs.replace(found, **more)


def shelf(there: DriverState, offers: tuple[Package, ...]) -> Shelf:
    """What a choice is made from."""
    return Shelf(state=there, offers=offers, family=FAMILY)


def facts(*cards: str, system: tuple[str, str] = ("ubuntu", "24.04")) -> Facts:
    """A machine of a distribution with cards of these names."""
    devices = [
        Device(id=f"gpu{number}", vendor="nvidia", name=seen(name, "test"))
        for number, name in enumerate(cards)
    ]
    host = HostFacts(os=seen(OsRelease(*system), "test"))
    return Facts(host=host, devices=seen(tuple(devices), "test"))


def driver_set(*packages: Package, **more: Any) -> DriverSet:
    """A set that is held as a whole."""
    found = DriverSet(
        scheme="ubuntu-cuda-580",
        branch=580,
        modules="open",
        version="580.95.05",
        packages=packages,
        holds=tuple(sorted(p.name for p in packages)),
    )
    return msgspec.structs.replace(found, **more)
