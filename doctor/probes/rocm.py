"""AMD GPUs and ROCm: the kernel's topology, sysfs and files; a tool only where these are silent.

Sources: kernel documentation of amdgpu (sysfs files) and KFD's topology folder.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple, Optional

from doctor.facts import Device, Facts, Missing, Reading, RocmFacts, Version, missing, seen
from doctor.probes import access, amd_smi, files, pci, rocm_smi
from doctor.probes.host import Host

KFD, ROOT = "/dev/kfd", "/opt/rocm"
TOPOLOGY = "/sys/class/kfd/kfd/topology/nodes"
_MODULE = "/sys/module/amdgpu"
_RENDER = re.compile(r"renderD\d{1,4}")
_FIELD = re.compile(r"^(\w{1,40}) (\d{1,20})$", re.MULTILINE)
_VERSION = re.compile(r"\d{1,3}(?:\.\d{1,6}){1,3}")
_TOOLS = (
    (("amd-smi", "static", "--json"), amd_smi.parse),
    (("rocm-smi", "--showproductname", "--showmeminfo", "vram", "--showbus"), rocm_smi.parse),
)
_TOOL_S = 15.0
_MOST_NODES = 512


class KfdNode(NamedTuple):
    """One GPU of the kernel's compute topology: target "gfx942", address "0000:05:00.0"."""

    gfx: str
    address: str


def read(host: Host, facts: Facts) -> Facts:
    """Fill `rocm`, and what is known of each AMD device."""
    rocm = RocmFacts(
        version=_version(host, host.environ()), driver=_driver(host), nodes=_nodes(host)
    )
    found = [d for d in facts.devices.value or () if d.vendor == "amd"]
    nodes = read_topology(host)
    devices = _numbered([_described(host, d) for d in found], nodes)
    if not nodes and not rocm.driver.is_absent:
        rocm, devices = _asked(host, rocm, devices)
    if not devices:
        return replace(facts, rocm=rocm)
    others = [d for d in facts.devices.value or () if d.vendor != "amd"]
    at = facts.devices.at or devices[0].name.at
    return replace(facts, rocm=rocm, devices=seen((*others, *devices), at))


def _version(host: Host, environ: Mapping[str, str]) -> Reading[Version]:
    """The release of the user space; a suffix after a dash counts builds."""
    root = environ.get("ROCM_PATH", "").rstrip("/") or ROOT
    text = host.read_text(f"{root}/.info/version", 256)
    if text.value is None:
        return files.relay(text)
    match = _VERSION.match(text.value.strip())
    return seen(Version(match[0]), text.at) if match else missing(Missing.NOT_READABLE, text.at)


def _driver(host: Host) -> Reading[Version]:
    """The version of the module; the kernel's own has none to state."""
    text = host.read_text(f"{_MODULE}/version", 256)
    if text.is_absent and host.real_path(_MODULE).is_known:
        return missing(Missing.NOT_STATED, _MODULE)
    if text.value is None:
        return files.relay(text)
    found = Version.maybe(text.value.strip())
    return seen(found, text.at) if found else missing(Missing.NOT_READABLE, text.at)


def _nodes(host: Host) -> Reading[tuple[str, ...]]:
    names = host.list_dir("/dev")
    if names.value is None:
        return files.relay(names)
    compute = (KFD,) if "kfd" in names.value else ()
    render = host.list_dir("/dev/dri").value or ()
    paths = (*compute, *(f"/dev/dri/{name}" for name in render if _RENDER.fullmatch(name)))
    return access.open_nodes(host, seen(paths, "/dev"))


def read_topology(host: Host) -> tuple[KfdNode, ...]:
    """The GPUs in the order in which ROCm numbers them."""
    names = [n for n in host.list_dir(TOPOLOGY).value or () if n.isascii() and n.isdigit()]
    ordered = sorted(names[:_MOST_NODES], key=int)
    texts = (host.read_text(f"{TOPOLOGY}/{name}/properties", 1 << 14) for name in ordered)
    found = (parse_properties(text.value or "") for text in texts)
    return tuple(node for node in found if node is not None)


def parse_properties(text: str) -> Optional[KfdNode]:
    """Read a node's properties; None for a processor, which has no target.

    90402 is gfx942: the major in tens of thousands, minor and stepping as hexadecimal digits.
    """
    told = {name: int(value) for name, value in _FIELD.findall(text)}
    target, place = told.get("gfx_target_version", 0), told.get("location_id", 0)
    if not target:
        return None
    gfx = f"gfx{target // 10000}{target // 100 % 100:x}{target % 100:x}"
    function = f"{place >> 8 & 0xFF:02x}:{place >> 3 & 0x1F:02x}.{place & 7}"
    return KfdNode(gfx, f"{told.get('domain', 0):04x}:{function}")


def _numbered(devices: list[Device], nodes: tuple[KfdNode, ...]) -> tuple[Device, ...]:
    """Devices with target and number; a partitioned GPU has several nodes at one place."""
    targets: dict[str, tuple[int, str]] = {}
    for node in nodes:
        targets.setdefault(node.address, (len(targets), node.gfx))
    return tuple(_with_target(device, targets.get(device.pci.value or "")) for device in devices)


def _with_target(device: Device, target: Optional[tuple[int, str]]) -> Device:
    if target is None:
        return replace(device, gfx=missing(Missing.NOT_READABLE, TOPOLOGY))
    return replace(device, index=target[0], gfx=seen(target[1], TOPOLOGY))


def _described(host: Host, device: Device) -> Device:
    """Name, memory and link as sysfs has them."""
    address = device.pci.value or ""
    folder = f"{pci.DEVICES}/{address}"
    total, used = (_mib(host, f"{folder}/mem_info_vram_{what}") for what in ("total", "used"))
    free: Reading[int] = used
    if total.value is not None and used.value is not None:
        free = seen(max(total.value - used.value, 0), used.at)
    name = host.read_text(f"{folder}/product_name", 256)
    if name.value is not None:
        text = name.value.strip()
        name = seen(text, name.at) if text else missing(Missing.NOT_STATED, name.at)
    link = pci.read_link(host, address)
    return replace(device, name=name, memory_mib=total, memory_free_mib=free, link=link)


def _mib(host: Host, path: str) -> Reading[int]:
    text = host.read_text(path, 64)
    if text.value is None:
        return files.relay(text)
    digits = text.value.strip()
    whole = digits.isascii() and digits.isdigit() and len(digits) < 20
    return seen(int(digits) >> 20, path) if whole else missing(Missing.NOT_READABLE, path)


def _asked(
    host: Host, rocm: RocmFacts, devices: tuple[Device, ...]
) -> tuple[RocmFacts, tuple[Device, ...]]:
    """What the first tool that is installed says, in the places that are still empty."""
    for argv, parse in _TOOLS:
        answer = host.run(argv, _TOOL_S)
        if answer.missing is Missing.TIMED_OUT:
            break
        if answer.value is not None and answer.value.returncode == 0:
            told = parse(answer.value.stdout)
            listed = told.devices.value or ()
            return _filled(rocm, told.rocm), _joined(devices, listed)
    return rocm, devices


def _filled(first: RocmFacts, second: RocmFacts) -> RocmFacts:
    driver = first.driver if first.driver.is_known else second.driver
    return replace(first, driver=driver if driver.is_known else first.driver)


def _joined(found: tuple[Device, ...], listed: tuple[Device, ...]) -> tuple[Device, ...]:
    if not found:
        return tuple(replace(device, id=f"amd{n}") for n, device in enumerate(listed))
    told = {device.pci.value: device for device in listed if device.pci.value}
    return tuple(_with_told(device, told.get(device.pci.value or "")) for device in found)


def _with_told(device: Device, told: Optional[Device]) -> Device:
    if told is None:
        return device
    names = ("name", "gfx", "memory_mib", "memory_free_mib")
    added = {n: getattr(told, n) for n in names if not getattr(device, n).is_known}
    known = {name: value for name, value in added.items() if value.is_known}
    return replace(device, index=told.index, **known)
