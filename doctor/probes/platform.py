"""What kind of machine this is: bare, a virtual machine, WSL 2, a Jetson, a container."""

from __future__ import annotations

import re
from dataclasses import replace

from doctor.facts import HostFacts, Missing, Reading, Version, missing, seen
from doctor.probes.files import relay
from doctor.probes.host import Host

_TEGRA_RELEASE = "/etc/nv_tegra_release"
_TREE_MODEL = "/proc/device-tree/compatible"
_CONTAINER_MARKS = ("/.dockerenv", "/run/.containerenv", "/run/systemd/container")
_CONTAINER_GROUP = re.compile(r"/(?:docker|kubepods|libpod|lxc|containerd|machine\.slice/libpod)")
_L4T = re.compile(r"R(\d{1,3}) \(release\), REVISION: (\d{1,3}(?:\.\d{1,3}){0,2})")
_VENDOR = "/sys/class/dmi/id/sys_vendor"
_PRODUCT = "/sys/class/dmi/id/product_name"
_VIRTUAL = re.compile(
    r"QEMU|KVM|VMware|VirtualBox|innotek|Xen|Bochs|Parallels|Virtual Machine|OpenStack"
    r"|Google Compute Engine|Alibaba Cloud ECS|Apple Virtualization",
    re.IGNORECASE,
)


def read(host: Host, facts: HostFacts) -> HostFacts:
    """Fill the platform; `facts` already hold kernel, processor and packages."""
    l4t = read_l4t(host)
    return replace(
        facts, platform=_platform(host, facts, l4t), l4t=l4t, jetpack=_jetpack(facts, l4t)
    )


def read_l4t(host: Host) -> Reading[Version]:
    """The Jetson Linux release."""
    text = host.read_text(_TEGRA_RELEASE, 1 << 12)
    return parse_l4t(text.value) if text.value is not None else relay(text)


def parse_l4t(text: str) -> Reading[Version]:
    """Read /etc/nv_tegra_release: "# R36 (release), REVISION: 4.3, ..." is 36.4.3."""
    match = _L4T.search(text)
    version = Version.maybe(f"{match[1]}.{match[2]}") if match else None
    if version is None:
        return missing(Missing.NOT_READABLE, _TEGRA_RELEASE)
    return seen(version, _TEGRA_RELEASE)


def _platform(host: Host, facts: HostFacts, l4t: Reading[Version]) -> Reading[str]:
    tree = host.read_text(_TREE_MODEL, 1 << 12)
    if l4t.is_known or "nvidia,tegra" in (tree.value or ""):
        return seen("jetson", l4t.at if l4t.is_known else tree.at)
    container = _container_mark(host)
    if container:
        return seen("container", container)
    if "microsoft" in (facts.kernel.value or "").lower():
        return seen("wsl2", facts.kernel.at)
    if facts.kernel.value is None:
        # A mounted tree: nothing runs that could be looked at.
        return relay(facts.kernel)
    return _bare_or_virtual(host, facts)


def _container_mark(host: Host) -> str:
    """Where it shows that this is a container, or ""."""
    if host.environ().get("container"):
        return "$container"
    for path in _CONTAINER_MARKS:
        if host.stat(path).is_known:
            return path
    group = host.read_text("/proc/1/cgroup", 1 << 14)
    return group.at if _CONTAINER_GROUP.search(group.value or "") else ""


def _bare_or_virtual(host: Host, facts: HostFacts) -> Reading[str]:
    if "hypervisor" in (facts.cpu.flags.value or ()):
        return seen("vm", facts.cpu.flags.at)
    for path in (_VENDOR, _PRODUCT):
        if _VIRTUAL.search(host.read_text(path, 256).value or ""):
            return seen("vm", path)
    if facts.cpu.flags.value is None:
        return relay(facts.cpu.flags)
    return seen("bare", facts.cpu.flags.at)


def _jetpack(facts: HostFacts, l4t: Reading[Version]) -> Reading[Version]:
    if l4t.value is None:
        return relay(l4t)
    if facts.packages.value is None:
        return relay(facts.packages)
    for package in facts.packages.value:
        if package.name == "nvidia-jetpack":
            version = Version.maybe(package.version.partition("-")[0].partition("+")[0])
            return seen(version, facts.packages.at) if version else missing(Missing.NOT_READABLE)
    return missing(Missing.NOT_THERE, facts.packages.at)
