"""Are the devices visible to the engine: variables, MIG, containers, the driver's own count."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from doctor.facts import Device
from doctor.findings import Evidence, Remedy
from doctor.matrix import Matrix
from doctor.rules import cards
from doctor.rules.decide import each, missed
from doctor.rules.engine import Case, Fault, NotApplicable, Rule, Severity, rule
from doctor.rules.framework import computes_on_cpu
from doctor.rules.host_room import arguments, processes
from doctor.rules.image_facts import known_image
from doctor.rules.model_facts import environment

_NPU = "ascend"
_HIDING = {"nvidia": ("CUDA_VISIBLE_DEVICES",),
           "amd": ("HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"),
           "ascend": ("ASCEND_RT_VISIBLE_DEVICES",)}  # fmt: skip
_CONTAINER_VARIABLE = "NVIDIA_VISIBLE_DEVICES"
_NO_DEVICES = ("void", "none", "")
_NODES = re.compile(r"/dev/nvidia(?:\d|ctl)?\*?", re.I)


# Where devices are listed after the variable has made its choice, or by who made it.
_AFTER_CHOICE = ("gpus", "npus", "collect_env")


@rule("DEV101", cause="gpu-not-visible", severity=Severity.ERROR)
def hidden_by_variable(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """A variable hides all devices from the engine, too many, or names one that is not there.

    What: CUDA_VISIBLE_DEVICES and its relatives against the devices of the host, and against
        the number of ranks that the arguments ask for.
    Why: the runtime reads the list up to the first entry that does not exist; an empty
        list, or a first entry that is wrong, leaves no device.
    How to fix: name existing indexes or UUIDs, or unset the variable.
    Silent when: the variable is unset, or its first entry exists. A note where as many cards
        are listed as it names: people list those that they use.
    Sources: CUDA C++ Programming Guide, environment variables; ROCm and CANN guides.
    """
    env = environment(case)
    found = False
    for vendor, names in _HIDING.items():
        devices = [d for d in case.devices if d.vendor == vendor]
        for name in names if devices or not case.devices else ():
            if name in env:
                found = True
                yield from _hidden(name, env[name].strip(), tuple(devices), case)
    if not found:
        if case.scope.env.is_known and not case.scope.env.partial:
            return
        case.scope.env.known("scope.env")
        raise NotApplicable("no variable that chooses devices is stated")


def _hidden(name: str, value: str, devices: tuple[Device, ...], case: Case) -> Iterator[Fault]:
    first = value.partition(",")[0].strip()
    all_hidden = first in ("", "-1", "NoDevFiles")
    whole = [d for d in devices if not (d.mig.value and d.mig.value.parent)]
    counted = bool(whole) and not case.facts.devices.partial
    beyond = counted and first.isdecimal() and int(first[:9]) >= len(whole)
    if not all_hidden and not beyond:
        yield from _fewer_than_ranks(name, value, devices, case)
        return
    why = f"names device {first}, and there are {len(whole)}" if beyond else "hides every device"
    yield Fault(
        message=f"{name}={value} {why}",
        severity=Severity.INFO if beyond and _may_be_chosen(value, len(whole), case) else None,
        evidence=(Evidence(f"{name}={value}", case.scope.env.at),),
        remedies=(Remedy(f"unset {name}, or name devices that exist", (f"unset {name}",)),),
        sources=("https://docs.nvidia.com/cuda/cuda-c-programming-guide/",),
    )


def _fewer_than_ranks(
    name: str, value: str, devices: tuple[Device, ...], case: Case
) -> Iterator[Fault]:
    """The variable leaves fewer devices than the engine is to use, and more are there."""
    shown = [part.strip() for part in value.split(",") if part.strip()]
    ranks = processes(case)
    whole = [d for d in devices if not (d.mig.value and d.mig.value.parent)]
    is_listed = bool(shown) and all(part.isdecimal() for part in shown)
    if not is_listed or ranks is None or case.facts.devices.partial or _of_several_nodes(case):
        return
    if len(set(shown)) < ranks <= len(whole):
        yield Fault(
            message=f"{name}={value} shows {len(set(shown))} of {len(whole)} devices, and the "
            f"engine is to use {ranks}",
            evidence=(Evidence(f"{name}={value}", case.scope.env.at),),
            remedies=(Remedy(f"name {ranks} devices, or unset {name}", (f"unset {name}",)),),
            sources=("https://docs.nvidia.com/cuda/cuda-c-programming-guide/",),
        )


def _of_several_nodes(case: Case) -> bool:
    given = arguments(case)
    return any(str(given.get(key, "1")) not in ("1", "") for key in _NODE_COUNTS)


_NODE_COUNTS = ("nnodes", "num_nodes", "node_count")


def _may_be_chosen(value: str, count: int, case: Case) -> bool:
    """Tell whether the devices listed may be those that the variable chose, and others exist.

    So people list the cards that they use, and torch those that it sees.
    """
    return case.facts.devices.at in _AFTER_CHOICE and len(set(value.split(","))) == count


@rule("DEV103", cause="gpu-not-visible", severity=Severity.ERROR)
def container_without_devices(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """The container was started without a device.

    What: the devices that the container was given, and NVIDIA_VISIBLE_DEVICES.
    Why: a container sees no GPU and no driver library unless it asks for them.
    How to fix: start it with --gpus all, or with the CDI devices.
    Silent when: the target is no container, it was given a device, or devices are seen from
        inside: CDI and device plugins of Kubernetes set the variable to void or none and
        hand the devices over themselves. A warning where only the command that starts it,
        or its compose file, asks for none.
    Sources: NVIDIA Container Toolkit documentation, docker-specialized and CDI.
    """
    if case.scope.kind not in ("container", "image"):
        raise NotApplicable("not a container")
    if computes_on_cpu(case):
        raise NotApplicable("an engine that runs on the CPU, and no accelerator on the host")
    image = known_image(case.scope, matrix)
    if image is not None and image.vendor == _NPU:
        raise NotApplicable("the nodes of an NPU are asked for apart")
    if case.devices and all(device.vendor == _NPU for device in case.devices):
        raise NotApplicable("the nodes of an NPU are asked for apart")
    told = f"{case.scope.image.ref} {case.scope.runtime.value or ''}".lower()
    if not case.nvidia_devices and ("rocm" in told or "/dev/kfd" in told):
        raise NotApplicable("the nodes of an AMD GPU are asked for apart")
    yield from each((lambda: _given_none(case), lambda: _asks_for_none(case)))


def _given_none(case: Case) -> Iterator[Fault]:
    visible = case.scope.devices_visible
    nodes = missed(case, _NODES)
    if nodes:
        yield _no_device(case, Evidence(f"{nodes[0]} was not found", "absent"))
    elif visible.partial and case.facts.devices.is_known and not case.nvidia_devices:
        raise NotApplicable("no nvidia device that the command could ask for")
    elif not visible.known("scope.devices_visible"):
        fault = _no_device(case, Evidence("the container has no device", visible.at))
        # By default a daemon may hand its GPUs to all: that a command asks for none is a sign.
        yield replace(fault, severity=Severity.WARNING) if visible.partial else fault


def _asks_for_none(case: Case) -> Iterator[Fault]:
    env = environment(case)
    if _CONTAINER_VARIABLE not in env:
        case.scope.env.known("scope.env")
        raise NotApplicable(f"{_CONTAINER_VARIABLE} is not stated")
    value = env[_CONTAINER_VARIABLE].strip()
    if value in _NO_DEVICES and case.facts.host.platform.value == "container" and case.devices:
        raise NotApplicable("devices are seen inside: they came in by another way, as CDI")
    if value in _NO_DEVICES and not case.scope.devices_visible.value:
        yield _no_device(case, Evidence(f"{_CONTAINER_VARIABLE}={value}", case.scope.env.at))


def _no_device(case: Case, fact: Evidence) -> Fault:
    return Fault(
        message="the container was started without a GPU",
        evidence=(fact,),
        remedies=(
            Remedy("start the container with its devices", ("docker run --gpus all ...",)),
            Remedy("or through CDI", ("docker run --device nvidia.com/gpu=all ...",)),
        ),
        sources=("https://docs.nvidia.com/datacenter/cloud-native/container-toolkit/",),
    )


@rule("DEV104", cause="gpu-not-visible", severity=Severity.ERROR, gate=True)
def driver_lists_fewer(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """The driver lists fewer GPUs than the PCI bus has, or another driver holds one.

    What: the kernel driver of each NVIDIA device, and NVML's count against the bus.
    Why: a device bound to vfio-pci belongs to a virtual machine; one that the driver
        found and could not start is on the bus and not in NVML.
    How to fix: bind the device to the nvidia driver; where the driver failed to start it,
        the kernel log has an NVRM line that says why.
    Silent when: both counts are equal, or one of them is not known.
    Sources: NVML, nvmlDeviceGetCount; kernel documentation of VFIO.
    """
    unseen = missed(case, _ON_BUS)
    if unseen:
        yield _not_on_bus(case, unseen[0])
        return
    if not case.facts.devices.is_known and case.facts.nvidia.nvml_devices.value == 0:
        yield _none_listed(case)
        return
    found = [d for d in cards.desktop_cards(case, matrix) if not _is_instance(d)]
    taken = [d for d in found if (d.pci_driver.value or "").startswith("vfio")]
    yield from (_given_away(device, cards.label(device, matrix)) for device in taken)
    listed = case.facts.nvidia.nvml_devices
    on_bus = [d for d in found if d.pci_id.is_known and d not in taken]
    if taken or not on_bus or case.facts.nvidia.driver.is_absent:
        return
    if listed.known("nvidia.nvml_devices") < len(on_bus):
        yield Fault(
            message=f"the driver lists {listed.value} of the {len(on_bus)} NVIDIA GPUs on the bus"
            if len(on_bus) > 1
            else "the driver does not list the NVIDIA GPU that is on the bus",
            evidence=(
                Evidence(f"NVML lists {listed.value}", listed.at),
                Evidence(
                    f"PCI: {', '.join(cards.label(d, matrix) for d in on_bus)}", on_bus[0].pci_id.at
                ),
            ),
            remedies=(
                Remedy("read why the driver did not start it", ("sudo dmesg | grep -i nvrm",)),
            ),
        )


def _given_away(device: Device, name: str) -> Fault:
    return Fault(
        message=f"{name} is bound to {device.pci_driver.value}: it is given to a virtual machine",
        evidence=(Evidence(f"driver: {device.pci_driver.value}", device.pci_driver.at),),
        remedies=(Remedy("give the device back to the host's nvidia driver"),),
        subject=device.id,
    )


_ON_BUS = re.compile(
    r"(?:an? |any |the )?(?:nvidia |amd |radeon |intel )?"
    r"(?:gpus?|devices?|cards?|3d controller|vga)"
    r" (?:in|from|on|under) (?:lspci|the (?:pci )?bus|the guest|the vm)|"
    r"lspci(?: entry| line)?(?: (?:of|for))? (?:the )?(?:nvidia |amd )?(?:gpus?|devices?|cards?)",
    re.IGNORECASE,
)


def _not_on_bus(case: Case, name: str) -> Fault:
    """Somebody looked at the bus: there is no card, so no driver can find one."""
    is_guest = case.facts.host.platform.value == "vm"
    fix = "hand the card over to this virtual machine (PCI pass-through)" if is_guest else (
        "look at slot, power and firmware settings, and at which machine holds the card"
    )  # fmt: skip
    return Fault(
        message="the bus of this machine shows no GPU",
        evidence=(Evidence(f"{name} was not found", "absent"),),
        remedies=(Remedy(fix, ("lspci -nn | grep -iE '3d|vga|display'",)),),
    )


def _none_listed(case: Case) -> Fault:
    """The module does not load without a GPU on the bus, so there is one that it cannot use."""
    listed = case.facts.nvidia.nvml_devices
    return Fault(
        message="the NVIDIA driver answers and lists no GPU",
        evidence=(Evidence("NVML lists 0", listed.at),),
        remedies=(
            Remedy(
                "see which GPUs the bus has, and read why the driver did not start them",
                ("lspci -nn -d 10de:", "sudo dmesg | grep -i nvrm", "ls -l /dev/nvidia*"),
            ),
        ),
        sources=("NVML, nvmlDeviceGetCount",),
    )


def _is_instance(device: Device) -> bool:
    return bool(device.mig.value and device.mig.value.parent)


RULES: tuple[Rule, ...] = (
    hidden_by_variable,
    container_without_devices,
    driver_lists_fewer,
)
