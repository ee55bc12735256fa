"""Rights of containers over their devices: rootless engines, and device rules that were lost."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.findings import Evidence, Remedy
from doctor.matrix import Matrix
from doctor.rules.container_runtime import GUIDE, TOOLKIT_DOMAIN, container_engine
from doctor.rules.decide import each
from doctor.rules.engine import Case, Fault, NotApplicable, Rule, Severity, rule
from doctor.rules.settings import covering
from doctor.rules.software import software


@rule("CTR103", cause="container-runtime", severity=Severity.ERROR)
def rootless_with_cgroups(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """A rootless engine lets NVIDIA's runtime set device rules, for which it has no rights.

    What: whether the engine runs without root or inside an LXC container, and the runtime's
        setting no-cgroups.
    Why: only root may load the device filter of a control group: "bpf_prog_query
        (BPF_CGROUP_DEVICE) failed: operation not permitted".
    How to fix: set no-cgroups, or use CDI, which needs no such rules.
    Silent when: the engine runs as root, or the setting is on. A warning where somebody
        tells of such an engine and nothing of the setting, which is off by itself.
    Sources: NVIDIA Container Toolkit documentation, rootless mode.
    """
    nested = _inside_lxc(case)
    if nested is not None:
        yield nested
        return
    box = container_engine(case, matrix)
    if box.rootless.known("container_engine.rootless") is False:
        raise NotApplicable("the engine runs as root")
    if any(_broken_toolkit(case, matrix)):
        raise NotApplicable("this version of the toolkit is at fault, whatever is set")
    is_told = box.rootless.at == "container" and not box.config.is_known and box.name == "docker"
    if is_told and any(map(_WORKED.search, case.facts.notes)):
        raise NotApplicable("the devices are, or were, there inside the container")
    config = {} if is_told else box.config.known("container_engine.config")
    if config.get("nvidia-container-cli.no-cgroups", "false") != "true" and not box.cdi.value:
        yield Fault(
            message=f"{box.name} is rootless, and NVIDIA's runtime would set device rules",
            evidence=(
                Evidence("rootless", box.rootless.at),
                Evidence("no-cgroups is not set", box.config.at),
            ),
            severity=Severity.WARNING if is_told else None,
            remedies=(_NO_CGROUPS,),
            sources=(GUIDE,),
        )


_NO_CGROUPS = Remedy(
    "tell the runtime to leave control groups alone",
    ("sudo nvidia-ctk config --set nvidia-container-cli.no-cgroups --in-place",),
    role="container_toolkit",
)
_IN_LXC = re.compile(
    r"\b(?:docker|podman|containerd|k3s)\b[^.;\n]{0,30}\b(?:in|inside|within)\b[^.;\n]{0,20}\blxc\b",
    re.I,
)


def _inside_lxc(case: Case) -> Fault | None:
    """An engine in an LXC container, of which a report about the toolkit tells."""
    work, box = case.workload, case.facts.container_engine.value
    config = (box.config.value if box is not None else None) or {}
    if work is None or work.engine != "container-toolkit" or config:
        return None
    texts = (case.scope.runtime.value or "", *case.facts.notes)
    said = next(filter(None, map(_IN_LXC.search, texts)), None)
    if said is None:
        return None
    return Fault(
        message="the engine runs inside LXC, where NVIDIA's runtime may not set device rules",
        evidence=(Evidence(said[0], "stated"), Evidence("no-cgroups is not told of", "stated")),
        severity=Severity.WARNING,
        remedies=(_NO_CGROUPS,),
        sources=(GUIDE, "https://github.com/blakeblackshear/frigate/issues/8652"),
    )


@rule("CTR121", cause="cgroup-device-lost", severity=Severity.ERROR)
def rights_of_devices_lost(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """The container has lost, or never got, the right to open its devices.

    What: NVML's answer inside the container while the host's driver is loaded; a GPU of which
        somebody tells that it was there at first; the cgroup driver systemd, or the static CPU
        manager, in a report about the toolkit itself; and versions of the container toolkit
        that break rootless engines.
    Why: systemd rewrites the device rules of control groups when it reloads, and drops
        those that NVIDIA's runtime had added: "Failed to initialize NVML: Unknown Error".
    How to fix: start the container anew. To keep it from coming back: CDI, devices named
        one by one, or the cgroupfs driver; or another version of the toolkit.
    Silent when: NVML answers, or no driver is loaded on the host.
    Sources: NVIDIA Container Toolkit documentation, troubleshooting; issue threads of it
        (claims in the matrix).
    """
    if case.scope.kind != "container" and case.facts.host.platform.value != "container":
        raise NotApplicable("not a container")
    checks = (
        lambda: _broken_toolkit(case, matrix),
        lambda: _told_lost(case),
        lambda: _rules_of_systemd(case),
        lambda: _lost_later(case),
        lambda: _nvml_refuses(case),
    )
    yield from each(checks)


def _told_lost(case: Case) -> Iterator[Fault]:
    """Somebody tells that the container had its devices, and lost them."""
    lost, devices = case.scope.lost, case.facts.devices.value
    if lost.value and (not devices or case.nvidia_devices):
        yield Fault(
            message=f"the container had its devices and lost them: {lost.value}",
            evidence=(Evidence(lost.value, lost.at),),
            remedies=_AGAIN,
            sources=(GUIDE + "latest/troubleshooting.html",),
            severity=Severity.WARNING,
        )


def _rules_of_systemd(case: Case) -> Iterator[Fault]:
    """Who reports about the toolkit names the cgroup driver or the CPU manager as what matters."""
    work, box = case.workload, case.facts.container_engine.value
    if work is None or work.engine not in ("container-toolkit", "gpu-operator"):
        return
    text = case.scope.runtime.value or ""
    manager = _CPU_MANAGER.search(text)
    is_systemd = box is not None and box.cgroup_driver.value == "systemd" and not box.cdi.value
    if is_systemd or manager:
        what = manager[0] if manager else "cgroup driver systemd"
        yield Fault(
            message=f"{what}: device rules that NVIDIA's runtime added to a running container "
            "are dropped when its control group is written anew",
            evidence=(Evidence(what, case.scope.runtime.at),),
            remedies=(_AGAIN[1],),
            sources=(
                GUIDE + "latest/troubleshooting.html",
                "https://github.com/NVIDIA/k8s-device-plugin (PASS_DEVICE_SPECS)",
            ),
            severity=Severity.WARNING,
        )


_CPU_MANAGER = re.compile(
    r"\bcpu[- ]?manager(?:[- ]?policy)?\W{0,4}(?:is |set to )?static\b|\bstatic cpu[- ]?manager\b",
    re.I,
)


def _lost_later(case: Case) -> Iterator[Fault]:
    """Somebody tells of systemd's control groups, and that the GPU was there at first."""
    texts = (case.scope.runtime.value or "", *case.facts.notes)
    said = next(filter(None, map(_SYSTEMD.search, texts)), None)
    later = next(filter(None, map(_AT_FIRST.search, texts)), None)
    if said is None and not any(map(_SLEPT.search, texts)):
        # Nothing is told of control groups, and a new container has what a running one lost.
        said = next(filter(None, map(_NEW_ONE.search, texts)), None)
    if said is not None and later is not None:
        yield Fault(
            message="the device rules of a running container are written anew, and those that "
            "NVIDIA's runtime added are dropped",
            evidence=(Evidence(said[0], "stated"), Evidence(later[0], "stated")),
            remedies=_AGAIN,
            sources=(GUIDE + "latest/troubleshooting.html",),
            severity=Severity.WARNING,
        )


def _nvml_refuses(case: Case) -> Iterator[Fault]:
    nvidia = case.facts.nvidia
    if nvidia.nvml_error.is_absent or nvidia.driver.is_absent:
        return
    if nvidia.nvml_error.known("nvidia.nvml_error") == _NVML_UNKNOWN and nvidia.driver.is_known:
        yield Fault(
            message="NVML answers with an unknown error inside the container, "
            "while the host's driver is loaded",
            evidence=(
                Evidence(f"NVML error {_NVML_UNKNOWN}", nvidia.nvml_error.at),
                Evidence(f"driver {nvidia.driver.value}", nvidia.driver.at),
            ),
            remedies=_AGAIN,
            sources=(GUIDE + "latest/troubleshooting.html",),
        )


_NVML_UNKNOWN = 999
_AGAIN = (
    Remedy("start the container anew", ("docker restart CONTAINER",)),
    Remedy(
        "keep it from coming back: hand devices over through CDI",
        ("docker run --device nvidia.com/gpu=all ...",),
        role="container_toolkit",
    ),
)
_SYSTEMD = re.compile(
    r"cgroup[ -]?driver\W{0,4}(?:is |set to )?systemd|native\.cgroupdriver=systemd|"
    r"SystemdCgroup\W{1,4}true|\bsystemd(?:'s)? cgroup|systemctl daemon-reload",
    re.IGNORECASE,
)
_NEW_ONE = re.compile(
    r"\b(?:restart\w*|new|fresh|recreat\w{1,5})\b[^.;\n]{0,25}\b(?:pod|container)\b[^.;\n]{0,25}"
    r"\b(?:works?|mends?|fixes|helps?|back|again|solves)\b|"
    r"\bin a (?:new|fresh) (?:container|pod) it works\b",
    re.IGNORECASE,
)
_WORKED = re.compile(
    r"\bnvidia-smi works\b[^.;\n]{0,20}\b(?:in|inside|within)\b|"
    r"\bworks?\b[^.;\n]{0,20}\b(?:at first|until)\b",
    re.IGNORECASE,
)
_SLEPT = re.compile(r"\b(?:suspend|sleep|hibernat|resume|wake)", re.IGNORECASE)
_AT_FIRST = re.compile(
    r"\bat first;|\bhas run for \d{1,3}\b|"
    r"\bworks?\b[^.;\n]{0,30}\b(?:at first|at (?:the )?start|when (?:the|a) \w{1,12} starts?|"
    r"again after|until)\b|\b(?:lose|loses|lost|gone|disappears?)\b[^.;\n]{0,40}\bafter\b|"
    r"\b(?:ran|worked|was fine|has run) for (?:\w{1,8} )?(?:minutes|hours|days|weeks)\b|"
    r"\bafter (?:some|a few|several|\d{1,3}) ?(?:time|while|minutes|hours|days)\b",
    re.IGNORECASE,
)


def _broken_toolkit(case: Case, matrix: Matrix) -> Iterator[Fault]:
    toolkit = case.facts.nvidia.container_toolkit
    box = case.facts.container_engine.value
    if toolkit.value is None or box is None or box.rootless.value is not True:
        return
    found = software(matrix, TOOLKIT_DOMAIN, toolkit.value, toolkit.at)
    for match in covering(matrix, found, "known-bad", "rootless"):
        yield Fault(
            message=f"container toolkit {toolkit.value} and a rootless engine: {match.claim.text}",
            evidence=(found.evidence, Evidence("rootless", box.rootless.at)),
            remedies=(Remedy(match.claim.remedy, role="container_toolkit"),),
            sources=tuple(match.claim.source),
            extrapolated=match.extrapolated,
        )


RULES: tuple[Rule, ...] = (rootless_with_cgroups, rights_of_devices_lost)
