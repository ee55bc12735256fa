"""Rules about AMD's kernel driver, the nodes to reach it, and engines without builds for it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.facts import Missing, MissingFact
from doctor.findings import Evidence, Remedy
from doctor.matrix import Matrix
from doctor.rules.decide import missed
from doctor.rules.engine import Case, Fault, NotApplicable, Rule, Severity, rule
from doctor.rules.framework import wants_cpu
from doctor.rules.settings import applicable, settings
from doctor.rules.software import engine

_NODE = "/dev/kfd"
_NO_MODULE = re.compile(r"amdgpu(?:\.ko)?(?: (?:kernel )?(?:module|driver))?", re.IGNORECASE)
_NO_NODE = re.compile(r"(?:/dev/)?kfd|/dev/dri(?:/renderD\d+)?", re.IGNORECASE)
_INSIDE = ("container", "image")
_GUIDE = "https://rocm.docs.amd.com/projects/install-on-linux/en/latest/"


def _need_amd(case: Case) -> None:
    if case.nvidia_devices or wants_cpu(case):
        raise NotApplicable("AMD's driver is not what this runs on")
    case.need_vendor("amd")


@rule("CUD906", cause="rocm-mismatch", severity=Severity.ERROR)
def amdgpu_not_loaded(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """AMD GPUs are on the bus, and their kernel driver is not loaded.

    What: the amdgpu module, and on the host itself the node /dev/kfd.
    Why: HIP opens /dev/kfd and /dev/dri/renderD*, which amdgpu makes; without them every
        engine for ROCm says that there is no device.
    How to fix: load the module; if it is not there, install the kernel's own or AMD's.
    Silent when: the module is loaded, the host is WSL, where Windows has the driver, or
        only a container was looked at; or no engine is to run on them.
    Sources: ROCm installation guide, prerequisites and verification.
    """
    _need_amd(case)
    host, rocm = case.facts.host, case.facts.rocm
    if host.platform.value in ("wsl2", "container"):
        raise NotApplicable("the driver is not of this system")
    if "amdgpu" in (host.modules_missing.value or ()):
        yield _unloaded(Evidence("amdgpu is not loaded", host.modules_missing.at))
        return
    words = missed(case, _NO_MODULE)
    if words or (missed(case, _NO_NODE) and case.scope.kind not in _INSIDE):
        name = words[0] if words else missed(case, _NO_NODE)[0]
        yield _unloaded(Evidence(f"{name} was not found", "absent"))
        return
    nodes = rocm.nodes.known("rocm.nodes")
    if rocm.driver.is_absent and _NODE not in nodes:
        if case.workload is None:  # a processor's own display unit is not there to compute
            raise NotApplicable("no engine is to run on it")
        yield _unloaded(Evidence(f"{_NODE} is not there, nor the module", rocm.nodes.at))


def _unloaded(fact: Evidence) -> Fault:
    return Fault(
        message="AMD's kernel driver is not loaded: ROCm finds no device",
        evidence=(fact,),
        remedies=(
            Remedy(
                "load the module, and read in the kernel log why it was not",
                ("sudo modprobe amdgpu", "sudo dmesg | grep -i amdgpu"),
            ),
        ),
        sources=(_GUIDE,),
    )


@rule("DEV106", cause="gpu-not-visible", severity=Severity.ERROR)
def container_without_amd_nodes(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """A container on a host with AMD GPUs was started without their nodes.

    What: /dev/kfd and /dev/dri as looked for inside the container, or as the command that
        starts it hands them over.
    Why: `--gpus` is NVIDIA's; AMD GPUs are given by their nodes, and HIP needs both.
    How to fix: start the container with the nodes, and with the group that owns them.
    Silent when: the nodes are there, or nobody looked for them. A warning where only a whole
        command tells.
    Sources: ROCm installation guide, running Docker containers.
    """
    if case.scope.kind not in _INSIDE:
        raise NotApplicable("not a container")
    _need_amd(case)
    names = missed(case, _NO_NODE)
    given = case.scope.devices_visible
    if not names and given.is_known and not given.value:
        severity = Severity.WARNING if given.partial else None
        yield _without(_NODE, Evidence("no node is handed over", given.at), severity)
        return
    if not names:
        if _NODE in (case.facts.rocm.nodes.value or ()):
            return
        raise MissingFact("nodes inside the container", Missing.NOT_STATED, case.scope.absent.at)
    yield _without(names[0], Evidence(f"{names[0]} was not found", "absent"), None)


def _without(name: str, fact: Evidence, severity: Severity | None) -> Fault:
    return Fault(
        message=f"the container was started without {name}",
        evidence=(fact,),
        severity=severity,
        remedies=(
            Remedy(
                "give the container the nodes, and the group that owns them",
                ("docker run --device /dev/kfd --device /dev/dri --group-add render ...",),
            ),
        ),
        sources=(_GUIDE,),
    )


@rule("CUD907", cause="rocm-mismatch", severity=Severity.WARNING)
def engine_without_rocm_build(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """The GPUs are AMD's, and nobody builds the engine, or the package installed, for ROCm.

    What: engines and packages of which the matrix says that they are made for CUDA alone, on
        a host whose GPUs are all AMD's.
    Why: such a build finds no device, or fails where it first calls CUDA.
    How to fix: the package or the engine that the finding names.
    Silent when: an NVIDIA device is there, a CPU run is asked for, or nothing is stated of the
        engine. A warning: somebody may have ported it.
    Sources: installation pages of the projects (rows in the matrix).
    """
    _need_amd(case)
    found = engine(case, matrix)
    if not any(matrix.claims(found.name, "rocm-build")):
        raise NotApplicable(f"nothing is stated of {found.name} on ROCm")
    device = case.need_vendor("amd")[0]
    for match in applicable(matrix, found, "rocm-build", settings(case, matrix)[0]):
        claim = match.claim
        if claim.key and case.scope.package(claim.key) is None:
            continue
        yield Fault(
            f"{claim.key or found.label} is made for CUDA alone, and the GPUs are AMD's: "
            f"{claim.text}",
            evidence=(found.evidence, Evidence(device.name.value or device.id, device.name.at)),
            remedies=(Remedy(claim.remedy),),
            sources=claim.source,
            extrapolated=match.extrapolated,
        )


RULES: tuple[Rule, ...] = (
    amdgpu_not_loaded,
    container_without_amd_nodes,
    engine_without_rocm_build,
)
