"""Several devices or hosts of one job, and what is told of how they work together."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.findings import Evidence, Remedy
from doctor.matrix import Matrix
from doctor.rules.engine import Case, Fault, NotApplicable, Rule, Severity, rule
from doctor.rules.host_room import processes
from doctor.rules.model_facts import argument, count, environment
from doctor.rules.serving_told import is_told, told, without_nvlink

_GUIDE = "https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html"
_ONE_HOST = re.compile(r"\bon the (?:first|head|main)\b", re.IGNORECASE)
_SAYS_MORE = ("info", "trace")  # levels of NCCL_DEBUG that somebody turns on to look for a fault


def _are_several(case: Case) -> bool:
    """One job uses several devices, as far as is known."""
    ranks = processes(case)
    return (ranks or 0) > 1 or (ranks is None and len(case.devices) > 1)


def _are_off(case: Case) -> bool:
    return environment(case).get("NCCL_P2P_DISABLE", "0").strip() not in ("", "0")


@rule("DEV135", cause="p2p-or-nccl", severity=Severity.WARNING)
def stops_with_several(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """Work on several devices is told to hang, or to fail where one device works.

    What: what is told of a hang, of one device that works, or of bandwidth that falls where
        peer access is on, for a job on several devices.
    Why: traffic between cards goes through the root complex, or gets lost, where the IOMMU
        translates it, ACS redirects it, or a driver or virtual machine offers peer access
        that does not work. The first all-reduce then never ends.
    How to fix: NCCL_P2P_DISABLE=1 tells whether it is that; then iommu=pt, ACS off, another driver.
    Silent when: one device is used, or nobody tells of it.
    Sources: NCCL user guide, troubleshooting; NVIDIA/nccl issues 199, 257, 631, 667.
    """
    words = told(case, "slower_peers", "hangs", "one_works")
    if not _are_several(case):
        raise NotApplicable("one device")
    off = _are_off(case)
    if off and not is_told(case, "hangs"):
        return
    yield Fault(
        "work on several devices stops, where one works: peer access or NCCL",
        evidence=(words,),
        remedies=(
            Remedy("let NCCL say what it does", ("export NCCL_DEBUG=INFO",)),
            *(() if off else (Remedy("keep it off peer access", ("export NCCL_P2P_DISABLE=1",)),)),
            Remedy("on bare metal boot with iommu=pt, and turn ACS off above the cards"),
        ),
        sources=(_GUIDE,),
    )


@rule("DEV136", cause="p2p-or-nccl", severity=Severity.WARNING)
def interface_left_open(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """Several hosts work together, and nothing says on which network interface.

    What: several hosts with several interfaces, or with the variables that choose one unset or
        set on one host only, as is told.
    Why: Gloo takes the address of the host's name, which may be the loopback, and NCCL the
        first interface that it finds, which may be a bridge of containers: ranks of the other
        host then cannot connect, or wait.
    How to fix: name the interface on every host.
    Silent when: one host is used, or nothing is told of interfaces.
    Sources: NCCL user guide, NCCL_SOCKET_IFNAME; PyTorch documentation, GLOO_SOCKET_IFNAME.
    """
    words = told(case, "interface_open")
    is_ray = str(argument(case, "distributed_executor_backend")[0]) == "ray"
    if not (is_told(case, "several_hosts") or (count(case, "nnodes") or 1) > 1 or is_ray):
        raise NotApplicable("one host")
    is_named = any(name.endswith("_SOCKET_IFNAME") for name in environment(case))
    if is_named and not _ONE_HOST.search(words.fact):
        return
    yield Fault(
        "ranks of several hosts may take an interface on which they do not reach each other",
        evidence=(words,),
        remedies=(
            Remedy(
                "name the interface on every host",
                ("ip -br addr", "export NCCL_SOCKET_IFNAME=eth0 GLOO_SOCKET_IFNAME=eth0"),
            ),
        ),
        sources=(
            "https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html",
            "https://docs.pytorch.org/docs/stable/distributed.html",
        ),
    )


@rule("DEV137", cause="p2p-or-nccl", severity=Severity.INFO)
def nccl_is_looked_into(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """NCCL is told to say what it does, for devices that are joined by PCIe only.

    What: NCCL_DEBUG at a level that fills the log, with a job on several devices without NVLink.
    Why: that level is turned on to look into a hang or an error of NCCL, and without NVLink
        these mostly come from peer access over PCIe.
    How to fix: NCCL_P2P_DISABLE=1 tells whether it is that.
    Silent when: the devices have NVLink, peer access is off, or the level is not so high. A
        note at most: some leave the level on for good.
    Sources: NCCL user guide, NCCL_DEBUG and troubleshooting.
    """
    level = environment(case).get("NCCL_DEBUG", "").strip().lower()
    if level not in _SAYS_MORE or not _are_several(case):
        raise NotApplicable("NCCL is not looked into")
    if _are_off(case) or len(case.devices) < 2:
        return
    how = without_nvlink(case, matrix)
    if how is not None:
        yield Fault(
            "NCCL is looked into, between cards that are joined by PCIe only",
            evidence=(Evidence(f"NCCL_DEBUG={level.upper()}", case.scope.env.at), how),
            remedies=(Remedy("keep it off peer access", ("export NCCL_P2P_DISABLE=1",)),),
            sources=(_GUIDE,),
        )


@rule("DEV138", cause="p2p-or-nccl", severity=Severity.WARNING)
def interface_reaches_nobody(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """Several hosts work together, and NCCL or Gloo is told to take the loopback.

    What: NCCL_SOCKET_IFNAME and its like for several hosts, where they name lo, or leave out the
        bridge of Docker alone.
    Why: the loopback reaches no other host. A list of what to leave out replaces the default,
        which leaves out both docker and lo, so that "^docker0" lets lo in.
    How to fix: name the interface that joins the hosts; or unset the variable.
    Silent when: one host is used, or another interface is named.
    Sources: NCCL user guide, NCCL_SOCKET_IFNAME; horovod pull request 700; NVIDIA/nccl issue 286.
    """
    if not (is_told(case, "several_hosts") or (count(case, "nnodes") or 1) > 1):
        raise NotApplicable("one host")
    for name, value in environment(case, needed=True).items():
        text = value.strip().lower()
        if name.endswith("_SOCKET_IFNAME") and _LOOPBACK.fullmatch(text):
            yield Fault(
                f"{name}={value} takes the loopback, which reaches no other host",
                evidence=(Evidence(f"{name}={value}", f"environment {name}"),),
                remedies=(
                    Remedy(
                        "name the interface that joins the hosts",
                        ("ip -br addr", f"export {name}=eth0"),
                    ),
                ),
                sources=("https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html",),
            )


_LOOPBACK = re.compile(r"=?lo|\^=?docker\w{0,4}")

RULES: tuple[Rule, ...] = (
    interface_reaches_nobody,
    stops_with_several,
    interface_left_open,
    nccl_is_looked_into,
)
