"""How devices reach each other: peer access, IOMMU, NVLink, what NCCL meets; and device nodes."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from doctor.facts import TopologyLink
from doctor.findings import Evidence, Remedy
from doctor.matrix import Matrix
from doctor.rules import cards
from doctor.rules.engine import Case, Fault, NotApplicable, Rule, Severity, rule
from doctor.rules.host_room import processes
from doctor.rules.settings import covering
from doctor.rules.software import engine

_WITHOUT_PEERS = Remedy(
    "let NCCL go through host memory instead",
    ("export NCCL_P2P_DISABLE=1",),
    risk="slower between cards",
)
# A library that is preloaded to share a GPU and takes over CUDA's memory calls.
_SHARING_LIBRARY = "libvgpu.so"


def _several_devices(case: Case) -> None:
    """Work on several NVIDIA devices; `NotApplicable` for work on one."""
    found = case.need_vendor("nvidia")
    count = processes(case)
    if len(found) < 2 and not case.facts.devices.partial:
        raise NotApplicable("one device")
    if count is not None and count < 2:
        raise NotApplicable("the engine uses one device")


def _peers_are_off(case: Case) -> bool:
    env = {**(case.scope.env.value or {})}
    if case.workload is not None:
        env.update(case.workload.env.value or {})
    return env.get("NCCL_P2P_DISABLE", "0").strip() not in ("", "0")


def _pairs(case: Case) -> tuple[TopologyLink, ...]:
    """Links between the devices of this case."""
    mine = {d.id for d in case.nvidia_devices}
    links = case.facts.topology.known("topology")
    return tuple(link for link in links if link.a in mine and link.b in mine)


def _is_nvlink(link: TopologyLink) -> bool:
    return link.link.startswith("NV")


@rule("DEV131", cause="p2p-or-nccl", severity=Severity.ERROR)
def peer_access_missing(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """The engine needs peer access between its devices, and they have none.

    What: peer access of each pair of devices against engine versions whose all-reduce
        needs it.
    Why: an all-reduce kernel of the engine's own writes into the other card's memory; it
        fails where the pair has no peer access, while NCCL would go through the host.
    How to fix: turn the engine's own all-reduce off, or use a version that falls back.
    Silent when: peer access works or is unknown, or the engine falls back by itself.
    Sources: issue threads of the engines (claims in the matrix).
    """
    _several_devices(case)
    found = engine(case, matrix)
    asked = [m for m in covering(matrix, found, "p2p") if m.claim.value == "required"]
    if not asked:
        raise NotApplicable(f"{found.name} is not known to need peer access")
    pairs = _pairs(case)
    without = [p for p in pairs if p.p2p is False]
    if without:
        yield Fault(
            message=f"{found.label} needs peer access, and {without[0].a} and {without[0].b} "
            f"({without[0].link}) have none",
            evidence=(found.evidence, Evidence("peer access: no", case.facts.topology.at)),
            remedies=(*(Remedy(m.claim.remedy) for m in asked if m.claim.remedy), _WITHOUT_PEERS),
            sources=tuple(asked[0].claim.source),
            extrapolated=asked[0].extrapolated,
        )
    elif all(p.p2p is None for p in pairs):
        case.facts.host.iommu.known("topology.p2p")


@rule("DEV132", cause="p2p-or-nccl", severity=Severity.WARNING)
def iommu_between_devices(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """The IOMMU translates traffic between cards that are joined by PCIe only.

    What: the IOMMU's mode and the links between the devices of a multi-GPU engine.
    Why: with translation, and ACS redirecting requests upwards, traffic between cards
        goes through the root complex or gets lost: NCCL hangs in the first all-reduce.
    How to fix: on bare metal iommu=pt and ACS off on the bridges above the cards; as a
        stopgap keep NCCL off peer access.
    Silent when: the cards are joined by NVLink, NCCL is kept off peer access, the IOMMU
        is off or passes through, or the host is a virtual machine.
    Sources: NCCL user guide, troubleshooting; nccl issue 199, vllm issue 51513.
    """
    _several_devices(case)
    host = case.facts.host
    if host.platform.value in ("vm", "wsl2", "jetson"):
        raise NotApplicable("translation belongs to a virtual machine")
    if _peers_are_off(case):
        raise NotApplicable("NCCL is kept off peer access")
    if processes(case) is None:
        raise NotApplicable("nothing tells of work on several devices")
    if host.iommu.known("host.iommu") != "translated":
        return
    pairs = _pairs(case)
    if pairs and not any(map(_is_nvlink, pairs)):
        yield Fault(
            message="the IOMMU translates traffic between cards joined by PCIe only: NCCL may hang",
            evidence=(
                Evidence("IOMMU: translated", host.iommu.at),
                Evidence(f"links: {_kinds(pairs)}", case.facts.topology.at),
            ),
            remedies=(
                Remedy(
                    "boot with the IOMMU passing through (add iommu=pt to GRUB_CMDLINE_LINUX in "
                    "/etc/default/grub), and turn ACS off above the cards",
                    ("sudo update-grub", "sudo lspci -vvv | grep ACSCtl"),
                    reboot=True,
                ),
                _WITHOUT_PEERS,
            ),
            sources=(
                "https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html",
                "https://github.com/vllm-project/vllm/issues/51513",
            ),
        )


def _kinds(pairs: tuple[TopologyLink, ...]) -> str:
    return ", ".join(dict.fromkeys(p.link for p in pairs))


@rule("DEV133", cause="p2p-or-nccl", severity=Severity.WARNING)
def links_down(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """Some NVLinks of a device are down while others are up.

    What: the number of active and inactive NVLinks of each device.
    Why: a device with part of its links joins the others at a lower rate, or stops NCCL
        from using them.
    How to fix: reset the GPUs together; if links stay down, look at bridge, cable or the
        fabric manager's log.
    Silent when: all links are up, or all are down as they are where no bridge is fitted.
    Sources: NVML, nvmlDeviceGetNvLinkState.
    """
    for device in case.need_vendor("nvidia"):
        health = device.health.known("devices.health")
        if health.nvlinks_up and health.nvlinks_down:
            text = (
                f"{health.nvlinks_down} of {health.nvlinks_up + health.nvlinks_down} NVLinks down"
            )
            yield Fault(
                message=f"{cards.label(device, matrix)}: {text}",
                evidence=(Evidence(text, device.health.at),),
                remedies=(Remedy("read the state of every link", ("nvidia-smi nvlink -s",)),),
                subject=device.id,
            )


@rule("DEV134", cause="p2p-or-nccl", severity=Severity.WARNING)
def sharing_library_preloaded(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """A GPU-sharing library is preloaded into an engine that uses several devices.

    What: LD_PRELOAD of the target and its container runtime, on work on several devices.
    Why: the library takes over CUDA's memory calls; inside NCCL's start-up it can wait
        for itself, and the engine hangs without an error.
    How to fix: give the engine whole GPUs, or turn the library's control off for it.
    Silent when: nothing is preloaded, or the engine uses one device.
    Sources: HAMi issue 2641.
    """
    _several_devices(case)
    env = case.scope.env.value or {}
    text = f"{env.get('LD_PRELOAD', '')} {case.scope.runtime.value or ''}"
    if _SHARING_LIBRARY in text and (processes(case) or 0) > 1:
        yield Fault(
            message=f"{_SHARING_LIBRARY} is preloaded into an engine that uses several GPUs: "
            "NCCL may hang",
            evidence=(Evidence(text.strip()[:200], case.scope.env.at or case.scope.runtime.at),),
            remedies=(
                Remedy(
                    "turn its control off for this engine", ("export CUDA_DISABLE_CONTROL=true",)
                ),
            ),
            sources=("https://github.com/Project-HAMi/HAMi/issues/2641",),
        )
    elif not case.scope.env.is_known and not case.scope.runtime.is_known:
        case.scope.env.known("scope.env")


@rule("DEV141", cause="device-permission", severity=Severity.ERROR)
def nodes_not_open_to_user(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """The user may not open the device nodes.

    What: the access rights of the device nodes for the user that examines the host.
    Why: CUDA opens /dev/nvidiactl, /dev/nvidia-uvm and /dev/nvidia<n>; without access it
        finds no device.
    How to fix: the group that owns the nodes, or the module's file mode options; in a
        container on SELinux a label option.
    Silent when: every node can be opened, or the rights were not read.
    Sources: NVIDIA driver README, device file permissions.
    """
    case.need_vendor("nvidia")
    denied = case.facts.nvidia.denied_nodes
    nodes = denied.present("nvidia.denied_nodes")
    if nodes:
        yield Fault(
            message=f"this user may not open {', '.join(nodes)}",
            evidence=(Evidence(f"no access: {', '.join(nodes)}", denied.at),),
            remedies=(
                Remedy(
                    "join the group that owns the nodes, and log in again",
                    (
                        f"stat -c '%G %a %n' {shlex.quote(nodes[0])}",
                        "sudo usermod -aG video,render $USER",
                    ),
                ),
            ),
        )


RULES: tuple[Rule, ...] = (
    peer_access_missing,
    iommu_between_devices,
    links_down,
    sharing_library_preloaded,
    nodes_not_open_to_user,
)
