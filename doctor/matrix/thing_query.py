"""Look up NPUs, distributions, Xids and container images."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

from doctor.matrix.architectures import ModelDomain
from doctor.matrix.catalogue import (
    ContainerImage,
    Distro,
    DistroDomain,
    ImageDomain,
    Npu,
    NpuDomain,
    Xid,
    XidDomain,
    find_distro,
    find_npu,
)
from doctor.matrix.containers import ContainerDomain


class ThingQueries:
    """The part of the matrix that speaks of things rather than of versions."""

    _read: Callable[[str], Any]

    @cached_property
    def npus(self) -> tuple[Npu, ...]:
        """Ascend chips."""
        domain: NpuDomain = self._read("ascend-npus")
        return domain.npus

    def npu(self, name: str = "", soc: str = "", pci_id: str = "") -> Npu | None:
        """The chip of a SoC name, an npu-smi or product name, or a PCI id ("19e5:d802").

        None if none fits, or if chips of several generations do ("910B" names two).
        """
        return find_npu(self.npus, name, soc, pci_id)

    def distro(self, name: str, version: str) -> Distro | None:
        """The release of a distribution by os-release ID or name and VERSION_ID."""
        domain: DistroDomain = self._read("distros")
        return find_distro(domain.distros, name, version)

    def distro_releases(self, name: str) -> tuple[Distro, ...]:
        """All releases of a distribution by os-release ID."""
        domain: DistroDomain = self._read("distros")
        return tuple(row for row in domain.distros if row.id.lower() == name.lower())

    def xid(self, number: int) -> Xid | None:
        """What an Xid number of the kernel log means."""
        domain: XidDomain = self._read("xid")
        return next((row for row in domain.xids if row.number == number), None)

    @cached_property
    def listed_models(self) -> dict[str, str]:
        """Architectures by the plain name of models of which nothing else is known."""
        domain: ModelDomain = self._read("models")
        return {
            name: architecture
            for group in domain.listed
            for architecture, names in group.architectures.items()
            for name in names
        }

    @cached_property
    def images(self) -> tuple[ContainerImage, ...]:
        """Container images of engines, most particular first."""
        domain: ImageDomain = self._read("images")
        return domain.images

    @cached_property
    def containers(self) -> ContainerDomain:
        """How engines run in containers."""
        domain: ContainerDomain = self._read("containers")
        return domain
