"""The machine whose driver is planned: what is known of it, and what it decides of a set. Pure."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from doctor.facts import Device, Facts
from doctor.matrix import Matrix
from doctor.matrix.packaging import Family
from doctor.provision.driver.ask import pattern_of
from doctor.provision.driver.companions import toolkit
from doctor.provision.driver.sets import DriverSet, DriverState
from doctor.provision.target import Target


@dataclass(frozen=True)
class Scene:
    """All that a choice is made from."""

    target: Target
    facts: Facts
    matrix: Matrix
    family: Family
    state: DriverState
    uid: int

    @property
    def system(self) -> str:
        """The distribution as the matrix names it: "ubuntu 24.04"; "" if not known."""
        found = self.facts.host.os.value
        return f"{found.id} {found.version}".lower() if found else ""

    @property
    def container_engine(self) -> str:
        """The name of the container engine that is there, "" for none."""
        found = self.facts.container_engine.value
        return found.name if found else ""

    @property
    def cards(self) -> tuple[Device, ...]:
        """NVIDIA cards of the machine."""
        return tuple(d for d in self.facts.devices.value or () if d.vendor == "nvidia")


def on_this_machine(found: DriverSet, scene: Scene) -> DriverSet:
    """A set, chosen or locked, with what the machine itself decides: key, cards, containers."""
    hands_out = set(toolkit(scene.matrix)) <= set(found.names)
    return msgspec.structs.replace(
        found,
        needs_key=found.builds and scene.facts.host.secure_boot.value is True,
        starts=bool(scene.cards),
        engine=scene.container_engine if hands_out else "",
        patterns=pattern_of(scene.family),
    )
