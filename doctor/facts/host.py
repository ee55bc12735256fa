"""The machine itself: system, processor, memory, limits, packages that are held."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional

from doctor.facts.reading import UNSTATED, Reading
from doctor.facts.record import Record
from doctor.facts.version import Version


@dataclass(frozen=True, repr=False, eq=False)
class OsRelease(Record):
    """/etc/os-release: `id` "ubuntu", `version` "22.04", `like` ("debian",)."""

    id: str
    version: str = ""
    like: tuple[str, ...] = ()
    pretty: str = ""


@dataclass(frozen=True, repr=False, eq=False)
class Libc(Record):
    """The C library: `kind` is "glibc" or "musl"; `libstdcxx` the newest GLIBCXX symbol version."""

    kind: str
    version: Optional[Version] = None


@dataclass(frozen=True, repr=False, eq=False)
class Cpu(Record):
    """The processor as the kernel shows it to this host (a VM may mask flags).

    `flags` are the kernel's names (avx2, avx512f, amx_tile; on Arm asimd, sve).
    `lacks` are flags that a person stated to be missing, where no list was read.
    """

    model: Reading[str] = UNSTATED
    flags: Reading[tuple[str, ...]] = UNSTATED
    lacks: Reading[tuple[str, ...]] = UNSTATED
    count: Reading[int] = UNSTATED


@dataclass(frozen=True, repr=False, eq=False)
class Limits(Record):
    """Resource limits of the examined process; -1 means unlimited."""

    open_files: Reading[int] = UNSTATED
    locked_memory_kib: Reading[int] = UNSTATED


@dataclass(frozen=True, repr=False, eq=False)
class DiskSpace(Record):
    """Free space of the file system that holds `path`."""

    path: str
    free_mib: int


@dataclass(frozen=True, repr=False, eq=False)
class HeldPackages(Record):
    """What keeps packages in place: `holds` by name, `pins` by preference or versionlock."""

    holds: tuple[str, ...] = ()
    pins: tuple[str, ...] = ()


@dataclass(frozen=True, repr=False, eq=False)
class AutomaticUpgrades(Record):
    """Unattended upgrades: `tool` and the package patterns it leaves alone."""

    enabled: bool
    tool: str = ""
    blacklist: tuple[str, ...] = ()


@dataclass(frozen=True, repr=False, eq=False)
class SystemPackage(Record):
    """A package of the distribution that matters here (driver, kernel headers, libraries)."""

    name: str
    version: str
    source: str = ""


@dataclass(frozen=True, repr=False, eq=False)
class DkmsModule(Record):
    """One line of `dkms status`."""

    name: str
    version: str
    kernel: str
    state: str


@dataclass(frozen=True, repr=False, eq=False)
class HostFacts(Record):
    """The host; sizes in MiB; `platform` is bare, vm, wsl2, jetson or container.

    `unreachable` are addresses (hub, index, registry) that were tried without answer.
    """

    os: Reading[OsRelease] = UNSTATED
    kernel: Reading[str] = UNSTATED
    arch: Reading[str] = UNSTATED
    libc: Reading[Libc] = UNSTATED
    libstdcxx: Reading[Version] = UNSTATED
    platform: Reading[str] = UNSTATED
    l4t: Reading[Version] = UNSTATED
    jetpack: Reading[Version] = UNSTATED
    cpu: Cpu = Cpu()
    memory_mib: Reading[int] = UNSTATED
    memory_available_mib: Reading[int] = UNSTATED
    memory_needed_mib: Reading[int] = UNSTATED
    swap_mib: Reading[int] = UNSTATED
    shm_mib: Reading[int] = UNSTATED
    disk_free: Reading[tuple[DiskSpace, ...]] = UNSTATED
    secure_boot: Reading[bool] = UNSTATED
    modules: Reading[tuple[str, ...]] = UNSTATED
    modules_missing: Reading[tuple[str, ...]] = UNSTATED
    kernel_headers: Reading[str] = UNSTATED
    dkms: Reading[tuple[DkmsModule, ...]] = UNSTATED
    iommu: Reading[str] = UNSTATED
    init: Reading[str] = UNSTATED
    limits: Limits = Limits()
    packages: Reading[tuple[SystemPackage, ...]] = UNSTATED
    held_packages: Reading[HeldPackages] = UNSTATED
    automatic_upgrades: Reading[AutomaticUpgrades] = UNSTATED
    absent: Reading[tuple[str, ...]] = UNSTATED
    unreachable: Reading[tuple[str, ...]] = UNSTATED
    boot: Reading[str] = UNSTATED
    listening_ports: Reading[tuple[int, ...]] = UNSTATED
