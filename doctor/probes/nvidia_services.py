"""What stands around the NVIDIA driver: fabric manager, container toolkit, nodes, peermem."""

from __future__ import annotations

import re
from typing import Optional

from doctor.facts import FabricManager, HostFacts, Missing, Reading, Version, missing, seen
from doctor.facts.host import SystemPackage
from doctor.probes import files
from doctor.probes.host import Host

Packages = Reading[tuple[SystemPackage, ...]]

_UNIT = "nvidia-fabricmanager.service"
_GROUPS = ("/sys/fs/cgroup/system.slice", "/sys/fs/cgroup/systemd/system.slice")
_FABRIC = re.compile(r"(?:cuda-drivers-)?nvidia-fabric-?manager(?:-\d{3})?")
_TOOLKIT = re.compile(r"nvidia-container-toolkit(?:-base)?")
_STATED = re.compile(r"version (?:is : )?(\d{1,4}(?:\.\d{1,4}){1,2}(?:[-~]?rc\.?\d{1,2})?)")
_UPSTREAM = re.compile(r"(?:\d{1,3}:)?([^-]{1,60})")
_NODE = re.compile(r"nvidia(?:\d{1,3}|ctl|-uvm|-uvm-tools|-modeset|-nvswitch(?:\d+|ctl))|dxg|nvgpu")
_ASK_S = 5.0
_OUTSIDE = "outside this container"


def read_fabric_manager(host: Host, around: HostFacts) -> FabricManager:
    """Installed version, and whether its service has processes."""
    if _is_contained(around):
        unseen: Reading[Version] = missing(Missing.NOT_READABLE, _OUTSIDE)
        return FabricManager(unseen, missing(Missing.NOT_READABLE, _OUTSIDE))
    version = packaged(around.packages, _FABRIC)
    if not version.is_known:
        version = _stated(host, ("nv-fabricmanager", "--version"), version)
    return FabricManager(version, _has_processes(host))


def read_container_toolkit(host: Host, around: HostFacts) -> Reading[Version]:
    """The version of the installed toolkit, from its package or from its own tool."""
    if _is_contained(around):
        return missing(Missing.NOT_READABLE, _OUTSIDE)
    version = packaged(around.packages, _TOOLKIT)
    if version.is_known:
        return version
    return _stated(host, ("nvidia-ctk", "--version"), version)


def _is_contained(around: HostFacts) -> bool:
    """A container sees the devices of its host, but neither packages nor services of it."""
    return around.platform.value == "container"


def packaged(packages: Packages, name: re.Pattern[str]) -> Reading[Version]:
    """The upstream version of the first package of that name."""
    if packages.value is None:
        return files.relay(packages)
    for package in packages.value:
        if name.fullmatch(package.name):
            version = parse_upstream(package.version)
            if version is not None:
                return seen(version, f"package {package.name}")
    return missing(Missing.NOT_THERE, packages.at)


def parse_upstream(text: str) -> Optional[Version]:
    """The version without the distribution's epoch and revision ("1:580.95.05-1" is 580.95.05)."""
    match = _UPSTREAM.match(text)
    return Version.maybe(match[1].partition("~")[0]) if match else None


def _stated(host: Host, argv: tuple[str, ...], otherwise: Reading[Version]) -> Reading[Version]:
    answer = host.run(argv, _ASK_S)
    if answer.value is None:
        # Neither package nor program: absent, if the packages could be read.
        return files.relay(answer) if not answer.is_absent else otherwise
    version = parse_stated(answer.value.stdout)
    return missing(Missing.NOT_READABLE, argv[0]) if version is None else seen(version, argv[0])


def parse_stated(text: str) -> Optional[Version]:
    """What a tool of NVIDIA says of its version."""
    match = _STATED.search(text)
    return Version.maybe(match[1]) if match else None


def _has_processes(host: Host) -> Reading[bool]:
    """Whether the group that systemd keeps for the service has members."""
    for units in _GROUPS:
        if host.list_dir(units).is_known:
            members = host.read_text(f"{units}/{_UNIT}/cgroup.procs", 4096)
            return seen(bool((members.value or "").strip()), f"{units}/{_UNIT}")
    return missing(Missing.NOT_READABLE, _UNIT)


def read_persistence(host: Host, otherwise: Reading[bool]) -> Reading[bool]:
    """True where the persistence daemon listens; without it the mode may still be set."""
    socket = host.stat("/run/nvidia-persistenced/socket")
    return seen(True, socket.at) if socket.is_known else otherwise


def read_peermem(host: Host) -> Reading[bool]:
    """Whether the module for direct transfers to network cards is loaded."""
    modules = host.list_dir("/sys/module")
    if modules.value is None:
        return files.relay(modules)
    return seen(not {"nvidia_peermem", "nv_peer_mem"}.isdisjoint(modules.value), modules.at)


def read_nodes(host: Host) -> Reading[tuple[str, ...]]:
    """Paths of the driver's device nodes."""
    names = host.list_dir("/dev")
    if names.value is None:
        return files.relay(names)
    return seen(tuple(f"/dev/{name}" for name in names.value if _NODE.fullmatch(name)), "/dev")
