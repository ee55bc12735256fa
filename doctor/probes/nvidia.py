"""The NVIDIA driver, its devices and how they are linked: all sources put together.

The bus is read first, for it needs no driver. NVML and nvidia-smi are asked only where
a driver is loaded, each once, and nvidia-smi not where NVML already hung.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple, Optional

from doctor.facts import (
    Device,
    HostFacts,
    Missing,
    NvidiaFacts,
    Reading,
    TopologyLink,
    Version,
    missing,
    seen,
)
from doctor.probes import (
    access,
    files,
    nvidia_devices,
    nvidia_driver,
    nvidia_kernel_log,
    nvidia_libraries,
    nvidia_module,
    nvidia_services,
    nvidia_smi,
    nvidia_toolkits,
    pci,
)
from doctor.probes.host import Host
from doctor.probes.nvml_answers import NvmlAnswers, parse_answers
from doctor.probes.pci import PciFunction

# Without the persistence daemon a healthy device takes one to three seconds to wake.
_NVML_S, _NVML_DEVICE_S = 10.0, 3.0
_TREE_MODEL = "/proc/device-tree/model"


class NvidiaReadings(NamedTuple):
    """What this probe adds to the facts; `devices` hold those of other makers too."""

    nvidia: NvidiaFacts
    devices: Reading[tuple[Device, ...]]
    topology: Reading[tuple[TopologyLink, ...]]


class _Platform(NamedTuple):
    """What decides whom to ask: devices on the bus, and drivers that have no PCI device."""

    functions: Reading[tuple[PciFunction, ...]]
    module: nvidia_driver.LoadedModule
    wsl: bool
    jetson: bool

    @property
    def gpus(self) -> int:
        """NVIDIA devices on the bus."""
        return sum(f.vendor == "nvidia" for f in self.functions.value or ())

    @property
    def asks(self) -> bool:
        """True if a driver may be loaded."""
        return not self.module.driver.is_absent or self.wsl or self.jetson

    @property
    def is_ours(self) -> bool:
        """True if anything of NVIDIA may be here."""
        return self.gpus > 0 or self.asks

    @property
    def timeout_s(self) -> float:
        """How long NVML or nvidia-smi may take."""
        return _NVML_S + _NVML_DEVICE_S * self.gpus


def read(
    host: Host, environ: Mapping[str, str], around: Optional[HostFacts] = None
) -> NvidiaReadings:
    """Read everything; `around` gives packages and platform, where they have been read."""
    around = around or HostFacts()
    platform = _Platform(
        functions=pci.read(host),
        module=nvidia_driver.read(host),
        wsl=host.stat("/dev/dxg").is_known,
        jetson=around.platform.value == "jetson" or host.stat("/sys/module/nvgpu").is_known,
    )
    facts = _without_asking(host, environ, platform, around)
    answers, rows = _ask(host, platform)
    return NvidiaReadings(
        nvidia=_with_answers(host, facts, answers, rows),
        devices=_devices(host, platform, answers, rows),
        topology=answers.topology,
    )


def _without_asking(
    host: Host, environ: Mapping[str, str], platform: _Platform, around: HostFacts
) -> NvidiaFacts:
    """What files tell. Nodes come before NVML is asked, for NVML may create them."""
    libcuda = nvidia_libraries.read(host, nvidia_libraries.CUDA, environ)
    libnvidia_ml = nvidia_libraries.read(host, nvidia_libraries.NVML, environ)
    facts = NvidiaFacts(
        driver=platform.module.driver,
        module_flavour=platform.module.flavour,
        libcuda=libcuda,
        libnvidia_ml=libnvidia_ml,
        userspace=nvidia_libraries.userspace(libcuda, libnvidia_ml),
        toolkits=nvidia_toolkits.read(host, environ),
        nvswitch=_nvswitches(platform.functions),
        device_nodes=nvidia_services.read_nodes(host),
    )
    if platform.is_ours:
        return _of_nvidia_host(host, facts, platform, around)
    # Where a driver is and no card is seen, what is installed tells whether it could start one.
    return _with_module_file(host, facts) if _has_driver(facts, platform) else facts


def _has_driver(facts: NvidiaFacts, platform: _Platform) -> bool:
    return facts.userspace.is_known and not platform.wsl


def _nvswitches(functions: Reading[tuple[PciFunction, ...]]) -> Reading[int]:
    if functions.value is None:
        return files.relay(functions)
    return seen(sum(f.is_nvswitch for f in functions.value), functions.at)


def _of_nvidia_host(
    host: Host, facts: NvidiaFacts, platform: _Platform, around: HostFacts
) -> NvidiaFacts:
    """What only matters, and only costs, where NVIDIA devices are."""
    log = nvidia_kernel_log.read(host)
    facts = replace(
        facts,
        container_toolkit=nvidia_services.read_container_toolkit(host, around),
        denied_nodes=access.read_denied(host, facts.device_nodes),
        peermem=nvidia_services.read_peermem(host),
        gsp_firmware=nvidia_driver.read_firmware(host),
        xid=log.xid,
        kernel_messages=log.messages,
    )
    if facts.nvswitch.value:
        facts = replace(facts, fabric_manager=nvidia_services.read_fabric_manager(host, around))
    return facts if platform.wsl else _with_module_file(host, facts)


def _with_module_file(host: Host, facts: NvidiaFacts) -> NvidiaFacts:
    """Add the file of the module; its flavour counts where none is loaded."""
    file = nvidia_module.read(host)
    flavour = file.flavour if facts.driver.is_absent else facts.module_flavour
    return replace(
        facts, module_on_disk=file.version, module_signed=file.signed, module_flavour=flavour
    )


def _ask(
    host: Host, platform: _Platform
) -> tuple[NvmlAnswers, Reading[tuple[nvidia_smi.SmiDevice, ...]]]:
    if not platform.asks:
        gone = missing(Missing.NOT_STATED, "not asked: no NVIDIA kernel module is loaded")
        return parse_answers(gone), gone
    document = host.nvml(platform.timeout_s)
    if document.missing is Missing.TIMED_OUT:
        return parse_answers(document), missing(Missing.NOT_STATED, "not asked: NVML hangs")
    return parse_answers(document), nvidia_smi.read(host, platform.timeout_s)


def _with_answers(
    host: Host,
    facts: NvidiaFacts,
    answers: NvmlAnswers,
    rows: Reading[tuple[nvidia_smi.SmiDevice, ...]],
) -> NvidiaFacts:
    persistence = answers.persistence
    if not persistence.is_known:
        persistence = nvidia_services.read_persistence(host, persistence)
    return replace(
        facts,
        driver=_driver(facts.driver, answers.driver),
        smi_driver=nvidia_smi.driver(rows),
        cuda_driver_api=answers.cuda,
        nvml_error=answers.error,
        nvml_devices=answers.device_count,
        persistence=persistence,
        licensed=answers.licensed,
    )


def _driver(module: Reading[Version], nvml: Reading[Version]) -> Reading[Version]:
    """The loaded module's version; under WSL, where there is none, that of the Windows driver."""
    return nvml if nvml.is_known and not module.is_known else module


def _devices(
    host: Host,
    platform: _Platform,
    answers: NvmlAnswers,
    rows: Reading[tuple[nvidia_smi.SmiDevice, ...]],
) -> Reading[tuple[Device, ...]]:
    functions = platform.functions
    nothing_read = functions.value is None and not functions.is_absent
    if nothing_read and not answers.devices.is_known:
        return files.relay(functions)
    found = nvidia_devices.merge(host, functions.value or (), answers.devices, rows.value or ())
    if platform.jetson and not any(device.vendor == "nvidia" for device in found):
        found = (_jetson(host, answers), *found)
    return seen(found, functions.at)


def _jetson(host: Host, answers: NvmlAnswers) -> Device:
    """The GPU of a Jetson whose NVML does not list it: known by the name of the module."""
    model = host.read_text(_TREE_MODEL, 256)
    name = (model.value or "").strip("\0\n ")
    at = answers.devices.at
    return Device(
        id="gpu0",
        vendor="nvidia",
        index=0,
        name=seen(name, model.at) if name else files.relay(model),
        memory_mib=missing(Missing.NOT_READABLE, at),
    )
