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
    "nvidia-fabric-manager": "fabric_manager",
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
        "dnf-automatic",
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
        "unattended-upgrades",
        "yum-cron",
    }
)
_DRIVERS = frozenset({"fabric_manager", "driver", "module", "userspace"})
# Packages of distributions that carry the driver's libraries, its module, or libraries of CUDA.
_SYSTEM = (
    ("userspace", re.compile(r"libnvidia-(?:tesla-)?(?:compute|ml|cfg1)\d*(?:-.*)?|"
                             r"libcuda1(?:-\d+)?|(?:nvidia|nvidia-\d{3}xx)-(?:compute-)?utils.*|nvidia-smi|"
                             r"nvidia-driver-(?:cuda|libs).*|xorg-x11-drv-nvidia.*|"
                             r"nvidia-(?:compute|gl|video)-?g\d\d.*|nvidia\d{3}-(?:libs|utils).*|"
                             r"nvidia-container-toolkit-(?:production|lts)")),
    ("module", re.compile(r"(?:lib)?nvidia-(?:kernel|dkms)-.*|nvidia-open-(?:dkms|kernel).*|"
                          r"a?kmod-nvidia.*|nvidia(?:-driver)?(?:-(?:open|latest|current|\d{3}xx|lts))?-(?:dkms|kmod).*|"
                        r"nvidia\d{3}-dkms|dkms-nvidia.*|nvidia-(?:open-)?gfxg\d\d-kmp.*|"
                          r"nonfree-kmod-nvidia.*|nvidia-open-gpu-kernel-modules.*|"
                          r"nvidia-open-driver-g\d\d.*")),
    ("driver", re.compile(r"nvidia-(?:driver|headless)-\d.*|nvidia-headless-no-dkms-.*|"
                          r"cuda-drivers(?:-\d+)?|nvidia-open(?:-\d+)?|"
                          r"nvidia-\d{3}(?:-.*)?|nvidia-(?:tesla|legacy)-\d{3}(?:xx)?-driver|"
                          r"nvidia(?:-lts|\d{3})?|nvidia-graphics-drivers.*|nvidia-drivers|nvidia[-_]x11.*|"
                        r"nvidia-current|x11-video-nvidiag\d\d")),
    ("compat", re.compile(r"cuda-compat(?:-\d+-\d+)?")),
)  # fmt: skip
# Ubuntu and NVIDIA name the packages of the two flavours apart.
_CLOSED = re.compile(r"nvidia-(?:dkms|driver|kernel-source)-\d{3}(?:-server)?")
_OPEN = re.compile(r"-open\b|^nvidia-open")
_SONAMES = (
    ("cudnn", re.compile(r"libcudnn\d*(?:-cuda-\d+|-dev)?|nvidia-cudnn")),
    ("nccl", re.compile(r"libnccl\d*(?:-dev)?")),
    ("tensorrt", re.compile(r"libnvinfer\d*(?:-dev)?")),
)
_WHEEL = re.compile(
    r"([\w.-]{1,100}):.{0,60}?\bwheel\b.{0,40}?"
    r"((?:manylinux|musllinux|linux|win|macosx)_?[\w.]{1,40})"
)
_WIDTHS = {"systemd": 1}


@dataclass
class SortedPackages:
    """Entries of `packages` by where they belong; `stack` by the names that STACK gives.

    `flavour` is that of the kernel modules that a driver's package names ("open"), `compat`
    the name of a package with a forward-compatibility libcuda.
    """

    python: list[Package] = field(default_factory=list)
    host: list[SystemPackage] = field(default_factory=list)
    stack: dict[str, Version] = field(default_factory=dict)
    flavour: str = ""
    compat: str = ""


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
        system = next((part for part, words in _SYSTEM if words.fullmatch(name)), "")
        name = next((plain for plain, words in _SONAMES if words.fullmatch(name)), name)
        if role:
            _add_stack(found, role, text, table)
        elif system:
            _add_system(found, system, name, text)
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


def _add_system(found: SortedPackages, role: str, name: str, text: str) -> None:
    """A package of the distribution; its version may carry an epoch and a revision."""
    found.host.append(SystemPackage(name, text, "stated"))
    plain = re.sub(r"^\d+:|[-~+].*$", "", text)
    parsed = driver_version(plain) if plain else None
    if parsed is not None:
        found.stack.setdefault(role, parsed)
    is_module = role in ("driver", "module")
    if is_module and _OPEN.search(name):
        found.flavour = "open"
    elif is_module and _CLOSED.fullmatch(name):
        found.flavour = found.flavour or "proprietary"
    if role == "compat":
        found.compat = name


def _version(name: str, text: str, table: Stated) -> Version | None:
    parsed = version(text, _WIDTHS.get(name, 3))
    if parsed is None and text:
        table.note(table.at(name), text)
    return parsed
