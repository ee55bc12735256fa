"""Does the container engine hand GPUs to containers: runtime, context, rights, CDI."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.facts import ContainerEngine
from doctor.findings import Evidence, Remedy
from doctor.matrix import Matrix
from doctor.rules.decide import is_absent, missed
from doctor.rules.engine import Case, Fault, NotApplicable, Rule, Severity, rule
from doctor.rules.framework import computes_on_cpu, wants_cpu
from doctor.rules.image_facts import known_image

TOOLKIT_DOMAIN = "nvidia-container-toolkit"
_INSIDE = ("container", "image")
_TOOLKIT_PARTS = re.compile(
    r"nvidia-container-(?:runtime\S*|cli)|libnvidia-container\S*|nvidia-docker2?|nvidia-ctk|"
    r"(?:the )?nvidia (?:container )?(?:runtime|toolkit|runtimeclass)|runtimeclass(?:es)? nvidia|"
    r"runtime nvidia|nvidia-device-plugin\S*",
    re.IGNORECASE,
)
# Who reports about these speaks of containers, whether the report names one or not.
_OF_CONTAINERS = ("container-toolkit", "gpu-operator")
GUIDE = "https://docs.nvidia.com/datacenter/cloud-native/container-toolkit/"
_CONFIGURE = Remedy(
    action="let the toolkit write the engine's configuration, and restart the engine",
    commands=(
        "sudo nvidia-ctk runtime configure --runtime=docker",
        "sudo systemctl restart docker",
    ),
    role="container_toolkit",
    risk="restarting the engine stops containers that do not restart by themselves",
)
CDI_AGAIN = Remedy(
    "generate the description again",
    ("sudo nvidia-ctk cdi generate --output=/var/run/cdi/nvidia.yaml",),
    role="container_toolkit",
)


def container_engine(case: Case, matrix: Matrix) -> ContainerEngine:
    """The engine of a target that is a container; `NotApplicable` for anything else."""
    if case.scope.kind not in _INSIDE:
        raise NotApplicable("not a container")
    seen = case.facts.devices.value  # of an image judged on a host none is a fact, too
    others = seen is not None and (seen or case.scope.kind == "image") and not case.nvidia_devices
    if others or wants_cpu(case) or computes_on_cpu(case):
        raise NotApplicable("no nvidia device, or a CPU run was asked for")
    image = known_image(case.scope, matrix)
    if image is not None and image.vendor not in ("nvidia", "any"):
        raise NotApplicable(f"an image for {image.vendor} devices")
    return case.facts.container_engine.known("container_engine")


@rule("CTR101", cause="container-runtime", severity=Severity.ERROR)
def no_gpu_runtime(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """The container engine has no way to hand GPUs to a container.

    What: the runtimes that the daemon knows, its CDI devices, and whether NVIDIA's
        container toolkit is installed.
    Why: "could not select device driver" or "unknown runtime name: nvidia". A daemon
        reads its configuration at start, so a right file is no proof.
    How to fix: install the toolkit, let it configure the engine, restart the daemon.
    Silent when: the daemon knows the runtime or a CDI device, or the container has devices.
    Sources: NVIDIA Container Toolkit documentation, installation and troubleshooting.
    """
    lacks_part = is_absent(case, TOOLKIT_DOMAIN) or missed(case, _TOOLKIT_PARTS)
    work = case.workload
    is_meant = case.scope.kind in _INSIDE or (work and work.engine in _OF_CONTAINERS)
    if is_meant and lacks_part:
        yield _without_toolkit(case)
        return
    box = container_engine(case, matrix)
    if case.scope.devices_visible.value:
        raise NotApplicable("the container has devices")
    runtimes = box.runtimes.known("container_engine.runtimes")
    if any("nvidia" in name for name in runtimes) or box.cdi.value:
        return
    toolkit, listed = case.facts.nvidia.container_toolkit, ", ".join(runtimes)
    configured = "nvidia" in (box.config.value or {}).get("runtimes", "")
    state = "its file names nvidia: the daemon was not restarted" if configured else (
        "NVIDIA's container toolkit is not installed" if toolkit.is_absent else
        "the nvidia runtime is not configured"
    )  # fmt: skip
    yield Fault(
        message=f"{box.name} knows only {listed or 'no runtime'}: {state}",
        evidence=(
            Evidence(f"runtimes: {listed}", box.runtimes.at),
            Evidence(f"container toolkit {toolkit.value or 'not seen'}", toolkit.at),
        ),
        remedies=_remedies(is_configured=configured, is_absent=toolkit.is_absent),
        sources=(GUIDE,),
    )


def _without_toolkit(case: Case) -> Fault:
    return Fault(
        message="NVIDIA's container toolkit is not installed",
        evidence=(Evidence(f"{TOOLKIT_DOMAIN} was not found", case.scope.absent.at),),
        remedies=_remedies(is_configured=False, is_absent=True),
        sources=(GUIDE,),
    )


def _remedies(is_configured: bool, is_absent: bool) -> tuple[Remedy, ...]:
    if is_configured:
        return (Remedy("restart the daemon", ("sudo systemctl restart docker",)),)
    if not is_absent:
        return (_CONFIGURE,)
    command = "sudo apt-get install nvidia-container-toolkit  # or dnf, zypper"
    action = "install NVIDIA's container toolkit from its repository"
    return (Remedy(action, (command,), role="container_toolkit"), _CONFIGURE)


@rule("CTR102", cause="container-runtime", severity=Severity.ERROR)
def client_talks_to_desktop(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """The client's context leads to Docker Desktop's virtual machine.

    What: the context that the client uses.
    Why: on Linux Docker Desktop runs containers in a virtual machine without GPUs; the
        host's daemon with its NVIDIA runtime is never asked.
    How to fix: choose the context of the host's daemon, or remove Docker Desktop.
    Silent when: the context is the host's, or the host is WSL, where Docker Desktop has
        GPUs of its own.
    Sources: Docker documentation, contexts; nvidia-container-toolkit issue 814.
    """
    box = container_engine(case, matrix)
    if case.facts.host.platform.value == "wsl2":
        raise NotApplicable("Docker Desktop has GPUs on WSL")
    context = box.context.known("container_engine.context")
    if context.startswith("desktop-"):
        yield Fault(
            message=f"the client's context is {context}: containers run in a virtual machine "
            "without GPUs",
            evidence=(Evidence(f"context {context}", box.context.at),),
            remedies=(
                Remedy("use the host's daemon", ("docker context use default",)),
                Remedy("or remove Docker Desktop"),
            ),
            sources=("https://github.com/NVIDIA/nvidia-container-toolkit/issues/814",),
        )


@rule("CTR104", cause="container-runtime", severity=Severity.ERROR)
def cdi_of_another_driver(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """The CDI description names library files of another driver version.

    What: the driver version in the CDI description against the loaded driver.
    Why: the description lists files by name; after a driver upgrade they are gone, and
        containers do not start or lack libcuda.
    How to fix: generate it again.
    Silent when: both agree, or there is no description.
    Sources: NVIDIA Container Toolkit documentation, CDI support.
    """
    box = container_engine(case, matrix)
    described = box.cdi_driver.present("container_engine.cdi_driver")
    if described is None:
        raise NotApplicable("no CDI description")
    driver = case.facts.nvidia.driver.known("nvidia.driver")
    if described.same_as(driver) is False:
        yield Fault(
            message=f"the CDI description is of driver {described}, and {driver} is loaded",
            evidence=(
                Evidence(f"CDI: libraries of {described}", box.cdi_driver.at),
                Evidence(f"driver {driver}", case.facts.nvidia.driver.at),
            ),
            remedies=(CDI_AGAIN,),
            sources=(GUIDE,),
        )


@rule("CTR105", cause="container-runtime", severity=Severity.ERROR)
def no_device_nodes_inside(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """Inside this container there is no device node, and the host's driver is loaded.

    What: device nodes under /dev, where the examined system is itself a container.
    Why: the container was started without the NVIDIA runtime or without asking for GPUs;
        libraries that it brings along cannot open what is not there.
    How to fix: start the container with its GPUs, and install no driver inside.
    Silent when: the system is no container, or a node is there.
    Sources: NVIDIA Container Toolkit documentation, docker-specialized.
    """
    if case.facts.host.platform.value != "container":
        raise NotApplicable("not inside a container")
    nvidia = case.facts.nvidia
    nodes = nvidia.device_nodes.present("nvidia.device_nodes")
    if not nodes and nvidia.driver.present("nvidia.driver") is not None:
        yield Fault(
            message="this container was started without GPUs: it has no NVIDIA device node",
            evidence=(
                Evidence("no device node", nvidia.device_nodes.at),
                Evidence(f"host's driver {nvidia.driver.value}", nvidia.driver.at),
            ),
            remedies=(
                Remedy("start it with its GPUs", ("docker run --gpus all ...",)),
                Remedy("or through CDI", ("docker run --device nvidia.com/gpu=all ...",)),
            ),
            sources=(GUIDE,),
        )


RULES: tuple[Rule, ...] = (
    no_gpu_runtime,
    client_talks_to_desktop,
    cdi_of_another_driver,
    no_device_nodes_inside,
)
