"""Drivers, devices and how they are linked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional

from doctor.facts.reading import UNSTATED, Reading
from doctor.facts.record import Record
from doctor.facts.values import ComputeCapability
from doctor.facts.version import Version


@dataclass(frozen=True, repr=False, eq=False)
class DriverLibrary(Record):
    """One copy of libcuda or libnvidia-ml: the real file, and whether it is a compat copy.

    `versions` and `devices` are the driver branches and NVML brand numbers that the
    ELF note of a forward-compatibility libcuda allows; None if there is no note.
    `searched` is its place in the loader's search order (0 is found first).
    """

    path: str
    version: Optional[Version] = None
    compat: bool = False
    branches: Optional[tuple[int, ...]] = None
    brands: Optional[tuple[int, ...]] = None
    cuda: Optional[Version] = None
    searched: Optional[int] = None


@dataclass(frozen=True, repr=False, eq=False)
class FabricManager(Record):
    """NVIDIA fabric manager: installed version, and whether its service is active."""

    version: Reading[Version] = UNSTATED
    active: Reading[bool] = UNSTATED


@dataclass(frozen=True, repr=False, eq=False)
class CudaToolkit(Record):
    """A toolkit folder, such as /usr/local/cuda-12.8; `nvcc` tells whether it can compile."""

    path: str
    version: Optional[Version] = None
    nvcc: bool = False


@dataclass(frozen=True, repr=False, eq=False)
class XidEvent(Record):
    """One `NVRM: Xid` line of the kernel log."""

    number: int
    pci: str
    text: str


@dataclass(frozen=True, repr=False, eq=False)
class NvidiaFacts(Record):
    """The NVIDIA driver of the host, as read from several places that may disagree.

    `driver` is the loaded kernel module, `module_on_disk` what the next boot would load,
    `userspace` the driver version of the libraries; `module_flavour` is "open" or
    "proprietary"; `nvml_error` the return code with which NVML refused, `smi_driver`
    what the second reader said. `cuda_driver_api` is the CUDA version of libcuda.
    `nvml_error` is absent where NVML answered; a code with which it would not open a device
    counts. `module_signed` and `gsp_firmware` (versions in the firmware folder) are read
    from disk, `denied_nodes` are device nodes whose mode shuts the examining user out.
    """

    driver: Reading[Version] = UNSTATED
    module_flavour: Reading[str] = UNSTATED
    module_on_disk: Reading[Version] = UNSTATED
    userspace: Reading[Version] = UNSTATED
    smi_driver: Reading[Version] = UNSTATED
    libcuda: Reading[tuple[DriverLibrary, ...]] = UNSTATED
    libnvidia_ml: Reading[tuple[DriverLibrary, ...]] = UNSTATED
    cuda_driver_api: Reading[Version] = UNSTATED
    nvml_error: Reading[int] = UNSTATED
    nvml_devices: Reading[int] = UNSTATED
    fabric_manager: FabricManager = FabricManager()
    nvswitch: Reading[int] = UNSTATED
    toolkits: Reading[tuple[CudaToolkit, ...]] = UNSTATED
    container_toolkit: Reading[Version] = UNSTATED
    persistence: Reading[bool] = UNSTATED
    licensed: Reading[bool] = UNSTATED
    peermem: Reading[bool] = UNSTATED
    device_nodes: Reading[tuple[str, ...]] = UNSTATED
    denied_nodes: Reading[tuple[str, ...]] = UNSTATED
    module_signed: Reading[bool] = UNSTATED
    gsp_firmware: Reading[tuple[Version, ...]] = UNSTATED
    xid: Reading[tuple[XidEvent, ...]] = UNSTATED
    kernel_messages: Reading[tuple[str, ...]] = UNSTATED


@dataclass(frozen=True, repr=False, eq=False)
class AscendFacts(Record):
    """Huawei Ascend: driver, firmware, CANN toolkit, kernel packages, ATB (nnal), SoC name.

    `firmware_range` is what the driver's version.info says it works with: "[7.0.0,7.2.99]".
    `dcmi_error` is the code with which the driver's library refused, absent where it started;
    `smi_error` what npu-smi said instead of a table. `smi_driver` and `smi_devices` are what
    npu-smi, the second reader, says of driver and number of devices.
    """

    driver: Reading[Version] = UNSTATED
    firmware: Reading[Version] = UNSTATED
    firmware_range: Reading[str] = UNSTATED
    cann: Reading[Version] = UNSTATED
    kernels: Reading[str] = UNSTATED
    nnal: Reading[Version] = UNSTATED
    soc: Reading[str] = UNSTATED
    nodes: Reading[tuple[str, ...]] = UNSTATED
    smi_error: Reading[str] = UNSTATED
    dcmi_error: Reading[int] = UNSTATED
    smi_driver: Reading[Version] = UNSTATED
    smi_devices: Reading[int] = UNSTATED
    compatibility: Reading[str] = UNSTATED


@dataclass(frozen=True, repr=False, eq=False)
class RocmFacts(Record):
    """AMD ROCm: user-space version, amdgpu driver version, device nodes."""

    version: Reading[Version] = UNSTATED
    driver: Reading[Version] = UNSTATED
    nodes: Reading[tuple[str, ...]] = UNSTATED


@dataclass(frozen=True, repr=False, eq=False)
class CambriconFacts(Record):
    """Cambricon MLU: version of the driver, device nodes."""

    driver: Reading[Version] = UNSTATED
    nodes: Reading[tuple[str, ...]] = UNSTATED


@dataclass(frozen=True, repr=False, eq=False)
class Mig(Record):
    """Multi-Instance GPU: `enabled`; for an instance its parent's id and its profile."""

    enabled: bool
    parent: str = ""
    profile: str = ""
    instances: Optional[int] = None


@dataclass(frozen=True, repr=False, eq=False)
class Link(Record):
    """The PCIe link now and at best: lanes and generation."""

    width: Optional[int] = None
    width_max: Optional[int] = None
    gen: Optional[int] = None
    gen_max: Optional[int] = None


@dataclass(frozen=True, repr=False, eq=False)
class DeviceHealth(Record):
    """Uncorrected ECC errors, pending or failed row remaps, active throttle reasons.

    `nvml_error` is the code with which NVML refused this device (15: lost); NVLinks
    that are down are normal where no bridge is fitted. `status` is the word of a tool that
    has one ("OK", "Warning", "Critical" of npu-smi).
    """

    ecc_uncorrected: Optional[int] = None
    remap_pending: Optional[bool] = None
    remap_failed: Optional[bool] = None
    throttle: tuple[str, ...] = ()
    temperature_c: Optional[int] = None
    nvml_error: Optional[int] = None
    nvlinks_up: Optional[int] = None
    nvlinks_down: Optional[int] = None
    status: str = ""


@dataclass(frozen=True, repr=False, eq=False)
class DeviceProcess(Record):
    """A process that holds memory of a device."""

    pid: int
    memory_mib: Optional[int] = None
    name: str = ""


@dataclass(frozen=True, repr=False, eq=False)
class Device(Record):
    """One accelerator, or one MIG instance of one.

    `id` is unique in the facts ("gpu0", "gpu0/mig1", "npu3"), `vendor` one of nvidia,
    amd, ascend, intel, apple, cambricon; `pci_id` and `subsystem` "10de:2330";
    `pci_driver` the kernel driver bound to it (nvidia, nouveau, vfio-pci, "" for none).
    `fabric` is the state of its NVSwitch fabric: not-supported, not-started, in-progress,
    completed or failed; `gsp` tells whether the GPU's own firmware runs it.
    """

    id: str
    vendor: str
    index: Optional[int] = None
    pci: Reading[str] = UNSTATED
    pci_id: Reading[str] = UNSTATED
    subsystem: Reading[str] = UNSTATED
    pci_driver: Reading[str] = UNSTATED
    name: Reading[str] = UNSTATED
    brand: Reading[int] = UNSTATED
    compute_capability: Reading[ComputeCapability] = UNSTATED
    gfx: Reading[str] = UNSTATED
    soc: Reading[str] = UNSTATED
    memory_mib: Reading[int] = UNSTATED
    memory_free_mib: Reading[int] = UNSTATED
    mig: Reading[Mig] = UNSTATED
    link: Reading[Link] = UNSTATED
    health: Reading[DeviceHealth] = UNSTATED
    processes: Reading[tuple[DeviceProcess, ...]] = UNSTATED
    virtual: Reading[bool] = UNSTATED
    compute_mode: Reading[str] = UNSTATED
    uuid: Reading[str] = UNSTATED
    fabric: Reading[str] = UNSTATED
    gsp: Reading[bool] = UNSTATED


@dataclass(frozen=True, repr=False, eq=False)
class TopologyLink(Record):
    """How devices `a` and `b` are joined: NV<n>, PIX, PXB, PHB, NODE or SYS; `p2p` if it works.

    Where only alternatives are known they are joined by "|": "NODE|SYS".
    """

    a: str
    b: str
    link: str
    p2p: Optional[bool] = None
