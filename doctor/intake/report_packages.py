"""Where each entry under `packages` of a field report belongs: not all are distributions."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

from doctor.facts import Package, Version
from doctor.facts.host import SystemPackage
from doctor.intake.names import package_name
from doctor.intake.stated import Stated, driver_version, plain_text
from doctor.probes.stated_version import version

# Parts of the host or the driver stack that people list beside Python packages.
STACK = {
    "cann": "cann",
    "cann-toolkit": "cann",
    "ascend-toolkit": "cann",
    "npu-firmware": "firmware",
    "ascend-firmware": "firmware",
    "npu-driver": "npu_driver",
    "ascend-driver": "npu_driver",
    "hdk": "npu_driver",
    "ascend-hdk": "npu_driver",
    "nnal": "nnal",
    "atb": "nnal",
    "rocm": "rocm",
    "hip": "hip",
    "amdgpu": "amdgpu",
    "amdgpu-dkms": "amdgpu",
    "cuda": "cuda",
    "nvidia-fabricmanager": "fabric_manager",
    "fabricmanager": "fabric_manager",
    "fabric-manager": "fabric_manager",
    "nvidia-driver": "driver",
    "nvidia-container-toolkit": "container_toolkit",
    "docker": "docker",
}
_HOST = frozenset(
    {
        "binutils",
        "clang",
        "cmake",
        "containerd",
        "dkms",
        "g++",
        "gcc",
        "gcc-c++",
        "git",
        "glibc",
        "gpu-operator",
        "k8s",
        "kubernetes",
        "libstdc++",
        "linux-headers",
        "make",
        "podman",
        "runc",
        "rust",
        "rustc",
        "systemd",
    }
)
_DRIVERS = frozenset({"fabric_manager", "driver"})
_WHEEL = re.compile(
    r"([\w.-]{1,100}):.{0,60}?\bwheel\b.{0,40}?"
    r"((?:manylinux|musllinux|linux|win|macosx)_?[\w.]{1,40})"
)
_WIDTHS = {"systemd": 1}


@dataclass
class SortedPackages:
    """Entries of `packages` by where they belong; `stack` by the names that STACK gives."""

    python: list[Package] = field(default_factory=list)
    host: list[SystemPackage] = field(default_factory=list)
    stack: dict[str, Version] = field(default_factory=dict)


def with_tags(packages: tuple[Package, ...], notes: tuple[str, ...]) -> tuple[Package, ...]:
    """Add the wheel tags that notes state: "vllm: wheel tag manylinux_2_39"."""
    tagged = {package.name: package for package in packages}
    for note in notes:
        match = _WHEEL.match(note)
        if match:
            name = package_name(match[1])
            known = tagged.get(name) or Package(name)
            tagged[name] = replace(known, tags=(*known.tags, match[2]))
    return tuple(tagged.values())


def sort_packages(table: Stated) -> SortedPackages:
    """Sort the entries; a value that names no version leaves the package without one."""
    found = SortedPackages()
    for key, value in table.data.items():
        name, text = package_name(str(key)), plain_text(value)
        role = STACK.get(name) or ("fabric_manager" if "fabricmanager" in name else "")
        if role:
            _add_stack(found, role, text, table)
        elif name in _HOST:
            found.host.append(SystemPackage(name, text, "stated"))
        elif name:
            found.python.append(Package(name, _version(name, text, table)))
    return found


def _add_stack(found: SortedPackages, role: str, text: str, table: Stated) -> None:
    parsed = driver_version(text) if role in _DRIVERS else version(text)
    if parsed is None:
        table.note(table.at(role), text)
    else:
        found.stack.setdefault(role, parsed)


def _version(name: str, text: str, table: Stated) -> Version | None:
    parsed = version(text, _WIDTHS.get(name, 3))
    if parsed is None and text:
        table.note(table.at(name), text)
    return parsed
