"""The host, drivers and container engine that a field report speaks of."""

from __future__ import annotations

import re

from doctor.facts import (
    UNSTATED,
    AscendFacts,
    Cpu,
    CudaToolkit,
    FabricManager,
    HostFacts,
    Libc,
    Missing,
    NvidiaFacts,
    Reading,
    RocmFacts,
    Version,
    missing,
    seen,
)
from doctor.facts.host import DiskSpace
from doctor.intake.cpu_names import full_name
from doctor.intake.names import machine_name, machine_of_chips, os_release, platform_of_kernel
from doctor.intake.report_compat import compat_library
from doctor.intake.report_licence import licensed
from doctor.intake.report_limits import told_limits
from doctor.intake.report_network import unreachable
from doctor.intake.report_packages import SortedPackages
from doctor.intake.report_upgrades import automatic_upgrades, held_packages
from doctor.intake.stated import Stated, number, plain_text, words_in
from doctor.intake.told_boot import told_flavour, told_secure_boot
from doctor.probes.stated_version import version, widened
from doctor.probes.tool_text import reading

_L4T = re.compile(r"[rR]?(\d{2})(?:[ .,]+(?:REVISION:? ?)?(\d{1,2})(?:\.(\d{1,2}))?)?")
_IOMMU = (
    ("passthrough", re.compile(r"iommu=pt\b|iommu[^;,.]{0,20}pass-?through", re.I)),
    ("off", re.compile(r"iommu[ =:]{1,3}(?:off|disabled|none)\b|\bno iommu\b", re.I)),
    (
        "translated",
        re.compile(
            r"(?:iommu|amd-vi|vt-d)[^;,.]{0,30}\btranslat|iommu=on\b|"
            r"\biommu:? (?:is |are )?(?:enabled|active|on)\b",
            re.I,
        ),
    ),
)
# Boards of four cards have no switch, nor have the desktop machines of that name.
_NVSWITCH = re.compile(r"\bnv-?switch|\b[hd]gx\b(?![ -](?:spark|station)|.{0,12}\b4-gpu)", re.I)
_NO_NVSWITCH = re.compile(r"\b(?:no|without|not|lacks?)\b[^,;.]{0,20}nv-?switch", re.I)
_GUEST_TYPE = re.compile(
    r"\b((?:kvm|qemu)(?:32|64)|QEMU (?:Virtual|TCG) CPU|Common KVM processor)\b|"
    r"\b(?:cpu|processor)(?: type| model)?\b[^;\n]{0,12}\b(x86-64-v[12][\w-]{0,8})|"
    r"\b(?:proxmox|kvm|qemu|libvirt)\b[^;\n]{0,40}\bdefault (?:cpu|processor|type|virtual cpu)\b",
    re.I,
)
_CHANGED = re.compile(r"\b(?:fix(?:ed|es)|helps|helped|works?|chang\w{1,3}|to host|was)\b", re.I)
_NO_DRIVER = ("missing", "absent", "no driver", "not installed", "not loaded", "not there")
_JETSON = re.compile(r"\bjetson\b", re.IGNORECASE)


def stated_host(report: Stated, packages: SortedPackages) -> HostFacts:
    """The machine and its system."""
    system, memory = report.table("os"), report.table("memory")
    glibc = system.version("glibc", width=2)
    absent = report.strings("absent")
    loaded, lacking = system.strings("modules_loaded"), system.strings("modules_missing")
    listed = tuple(packages.host)
    chip = machine_of_chips(words_in(report.raw("cpu")), words_in(report.raw("gpus"))[:500])
    host = HostFacts(
        os=reading(os_release(system.text("distro"), system.text("version")), "os"),
        kernel=reading(system.text("kernel") or None, "os.kernel"),
        arch=reading(machine_name(system.text("arch") or chip) or None, "os.arch"),
        libc=seen(Libc("glibc", glibc.value), glibc.at) if glibc.is_known else UNSTATED,
        platform=_platform(report),
        l4t=_l4t(system),
        jetpack=system.version("jetpack"),
        cpu=_cpu(report.table("cpu"), _guest_type(report.strings("notes"))),
        memory_mib=_mib(memory, "ram_gib"),
        memory_available_mib=_mib(memory, "available_gib"),
        memory_needed_mib=_mib(memory, "needed_gib", "requested_gib"),
        swap_mib=_mib(memory, "swap_gib"),
        secure_boot=told_secure_boot(system, report.strings("notes")),
        modules=seen(loaded, "os.modules_loaded", partial=True) if loaded else UNSTATED,
        modules_missing=seen(lacking, "os.modules_missing", partial=True) if lacking else UNSTATED,
        kernel_headers=reading(system.text("kernel_headers") or None, "os.kernel_headers"),
        iommu=_iommu(report.text("topology")),
        disk_free=_disk(report.table("measured")),
        packages=seen(listed, "packages", partial=True) if listed else UNSTATED,
        unreachable=unreachable(report.strings("notes"), report.table("container").text("text")),
        limits=told_limits((*report.strings("notes"), report.table("container").text("text"))),
        held_packages=held_packages(report.strings("notes")),
        automatic_upgrades=automatic_upgrades(packages, report.strings("notes")),
        absent=seen(absent, "absent", partial=True) if absent else UNSTATED,
    )
    system.note_unread()
    memory.note_unread()
    return host


def _disk(measured: Stated) -> Reading[tuple[DiskSpace, ...]]:
    """Free disk where a report measures it; of which folder it does not say."""
    gib = number(plain_text(measured.data.get("disk_free_gib")))
    if gib is None:
        return UNSTATED
    return seen((DiskSpace("/", round(gib * 1024)),), "measured", partial=True)


def _platform(report: Stated) -> Reading[str]:
    """What is stated, or what the kernel's name gives away."""
    system = report.table("os")
    named = platform_of_kernel(system.text("kernel"))
    if system.flag("wsl") or named == "wsl2":
        return seen("wsl2", "os")
    board = "gpus" if _JETSON.search(words_in(report.raw("gpus"))[:500]) else ""
    if board or system.text("jetpack") or system.text("l4t") or named:
        return seen("jetson", board or "os")
    if report.table("container").flag("inside"):
        return seen("container", "container.inside")
    if report.table("cpu").flag("vm"):
        return seen("vm", "cpu.vm")
    return UNSTATED


def _iommu(text: str) -> Reading[str]:
    """The IOMMU's mode, where a sentence about the topology names it."""
    found = next((mode for mode, words in _IOMMU if words.search(text)), None)
    return reading(found, "topology")


def _nvswitch(text: str) -> Reading[int]:
    """Whether a sentence about the topology has the cards joined by NVSwitch; not how many."""
    if _NO_NVSWITCH.search(text):
        return seen(0, "topology")
    return seen(1, "topology", partial=True) if _NVSWITCH.search(text) else UNSTATED


def _l4t(system: Stated) -> Reading[Version]:
    """L4T as people write it: "R36.4", "R39 2.1", "# R35 (release), REVISION: 4.1"."""
    match = _L4T.search(system.text("l4t").replace("(release)", ""))
    if match is None:
        return UNSTATED
    numbers = [part for part in match.groups() if part]
    return seen(widened(Version(".".join(numbers)), 3), "os.l4t")


def _guest_type(notes: tuple[str, ...]) -> str:
    """The type of processor that a guest is shown, by the first note that speaks of one.

    QEMU's default types have one thing in common: they are no later than Nehalem.
    """
    found = (_GUEST_TYPE.search(note) for note in notes if not _CHANGED.search(note))
    match = next(filter(None, found), None)
    return "" if match is None else match[1] or match[2] or "QEMU Virtual CPU"


def _cpu(cpu: Stated, guest: str) -> Cpu:
    flags, lacks = cpu.strings("flags"), cpu.strings("lacks")
    cpu.raw("vm")
    count = cpu.number("count")
    stated = Cpu(
        model=reading(full_name(cpu.text("model")) or guest or None, "cpu.model"),
        # A list with "fpu", which each x86 of 64 bits has, was copied whole from the kernel.
        flags=seen(flags, "cpu.flags", partial="fpu" not in flags) if flags else UNSTATED,
        lacks=seen(lacks, "cpu.lacks", partial=True) if lacks else UNSTATED,
        count=reading(int(count) if count else None, "cpu.count"),
    )
    cpu.note_unread()
    return stated


def _mib(memory: Stated, *keys: str) -> Reading[int]:
    for key in keys:
        gib = memory.number(key)
        if gib is not None:
            return seen(round(gib * 1024), memory.at(key))
    return UNSTATED


def stated_nvidia(report: Stated, packages: SortedPackages) -> NvidiaFacts:
    """The NVIDIA driver and what belongs to it."""
    stated = report.text("kernel_module").lower()
    told = told_flavour(report.strings("notes"))
    flavour = _flavour(stated) or stated or packages.flavour or told
    box = report.table("container")
    return NvidiaFacts(
        driver=_driver(report, packages),
        module_flavour=reading(flavour or None, "kernel_module"),
        module_on_disk=_or_package(UNSTATED, packages, "module"),
        userspace=_userspace(report, packages),
        libcuda=compat_library(report, packages),
        cuda_driver_api=report.version("cuda_driver_api", width=2),
        fabric_manager=FabricManager(version=_or_package(UNSTATED, packages, "fabric_manager")),
        nvswitch=_nvswitch(report.text("topology")),
        toolkits=_toolkits(report, packages),
        licensed=licensed((*report.strings("notes"), box.text("text"))),
        container_toolkit=_or_package(
            box.version("toolkit_version"), packages, "container_toolkit"
        ),
    )


def _driver(report: Stated, packages: SortedPackages) -> Reading[Version]:
    """The driver's version; some write in its place that there is none."""
    if plain_text(report.data.get("driver")).lower() in _NO_DRIVER:
        report.raw("driver")
        return missing(Missing.NOT_THERE, "driver")
    return _or_package(report.driver("driver"), packages, "module", "driver")


def _flavour(text: str) -> str:
    """The flavour of the kernel modules in a person's words: "closed source", "nvidia-open"."""
    if re.search(r"\b(?:proprietary|closed)\b|\bnot open\b", text):
        return "proprietary"
    return "open" if re.search(r"\bopen\b", text) else ""


def _or_package(
    stated: Reading[Version], packages: SortedPackages, *roles: str
) -> Reading[Version]:
    """What is stated, else the version of the first of these parts that a package brings."""
    if stated.is_known:
        return stated
    role = next((role for role in roles if role in packages.stack), roles[0])
    return reading(packages.stack.get(role), f"packages.{role}")


def _userspace(report: Stated, packages: SortedPackages) -> Reading[Version]:
    """The driver's libraries; beside a stated driver a package of all its parts is theirs."""
    stated = _or_package(report.driver("driver_userspace"), packages, "userspace")
    is_beside = report.driver("driver").is_known and "driver" in packages.stack
    return _or_package(stated, packages, "driver") if is_beside else stated


def _toolkits(report: Stated, packages: SortedPackages) -> Reading[tuple[CudaToolkit, ...]]:
    stated = _or_package(report.version("cuda_toolkit"), packages, "cuda")
    if not stated.is_known:
        return UNSTATED
    compiles = "nvcc" not in report.strings("absent")
    return seen((CudaToolkit("", stated.value, compiles),), stated.at, partial=True)


def stated_ascend(report: Stated, packages: SortedPackages) -> AscendFacts:
    """The Ascend driver, firmware and toolkit."""
    return AscendFacts(
        driver=_or_package(report.version("npu_driver"), packages, "npu_driver"),
        firmware=_or_package(report.version("npu_firmware"), packages, "firmware"),
        cann=_or_package(report.version("cann"), packages, "cann"),
        nnal=_or_package(report.version("nnal"), packages, "nnal"),
    )


def stated_rocm(packages: SortedPackages) -> RocmFacts:
    """ROCm; a HIP version tells the first two numbers of the ROCm that it came with."""
    rocm = _or_package(UNSTATED, packages, "rocm")
    hip = packages.stack.get("hip")
    if not rocm.is_known and hip is not None and len(hip.release) > 1:
        rocm = reading(version(f"{hip.release[0]}.{hip.release[1]}"), "packages.hip")
    return RocmFacts(version=rocm, driver=_or_package(UNSTATED, packages, "amdgpu"))
