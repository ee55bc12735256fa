"""All facts of one host, and what a lock expects of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional

from doctor.facts.accelerators import (
    AscendFacts,
    CambriconFacts,
    Device,
    NvidiaFacts,
    RocmFacts,
    TopologyLink,
)
from doctor.facts.host import HostFacts
from doctor.facts.reading import UNSTATED, Reading
from doctor.facts.record import Record
from doctor.facts.scopes import ContainerEngine, Scope, Workload
from doctor.facts.version import Version

SCHEMA = "doctor/facts/v1"
# Characters of a log that are read; what is beyond is not kept either.
LOG_LIMIT = 4 << 20


@dataclass(frozen=True, repr=False, eq=False)
class LogText(Record):
    """Text that an engine or the kernel printed; `workload` is the id it belongs to, or "".

    `prose` if a person wrote it down, who may quote a message or only speak of it.
    """

    text: str
    workload: str = ""
    prose: bool = False


@dataclass(frozen=True, repr=False, eq=False)
class Expected(Record):
    """What a lock promises: packages with their versions, holds, pins. Empty without a lock.

    `driver` is the version of the driver that these packages make up.
    """

    packages: tuple[tuple[str, str], ...] = ()
    holds: tuple[str, ...] = ()
    pins: tuple[str, ...] = ()
    driver: Optional[Version] = None


@dataclass(frozen=True, repr=False, eq=False)
class Facts(Record):
    """What was observed on one host. Every leaf says where it was read or why it is missing."""

    schema: str = SCHEMA
    host: HostFacts = HostFacts()
    nvidia: NvidiaFacts = NvidiaFacts()
    ascend: AscendFacts = AscendFacts()
    rocm: RocmFacts = RocmFacts()
    cambricon: CambriconFacts = CambriconFacts()
    devices: Reading[tuple[Device, ...]] = UNSTATED
    topology: Reading[tuple[TopologyLink, ...]] = UNSTATED
    container_engine: Reading[ContainerEngine] = UNSTATED
    scopes: tuple[Scope, ...] = ()
    workloads: tuple[Workload, ...] = ()
    logs: tuple[LogText, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def is_idle(self) -> bool:
        """True if no engine is running or wanted, and no accelerator was seen to be there."""
        none = self.devices.is_absent or (self.devices.is_known and not self.devices.value)
        return none and not self.workloads

    def scope(self, scope_id: str) -> Optional[Scope]:
        """The scope of that id, or None."""
        return next((s for s in self.scopes if s.id == scope_id), None)

    def device(self, device_id: str) -> Optional[Device]:
        """The device of that id, or None."""
        return next((d for d in self.devices.value or () if d.id == device_id), None)
