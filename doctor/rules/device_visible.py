"""Are the devices visible to the engine: variables, MIG, containers, the driver's own count."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.facts import Device
from doctor.findings import Evidence, Remedy
from doctor.matrix import Matrix
from doctor.rules import cards
from doctor.rules.decide import each, missed
from doctor.rules.engine import Case, Fault, NotApplicable, Rule, Severity, rule
from doctor.rules.framework import computes_on_cpu
from doctor.rules.image_facts import known_image
from doctor.rules.settings import Setting, covering, holds, settings
from doctor.rules.software import engine

_NPU = "ascend"
_HIDING = {"nvidia": ("CUDA_VISIBLE_DEVICES",),
           "amd": ("HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"),
           "ascend": ("ASCEND_RT_VISIBLE_DEVICES",)}  # fmt: skip
_CONTAINER_VARIABLE = "NVIDIA_VISIBLE_DEVICES"
_NO_DEVICES = ("void", "none", "")
_NODES = re.compile(r"/dev/nvidia(?:\d|ctl)?\*?", re.I)


def _env(case: Case) -> dict[str, str]:
    """Variables of the workload, else those of its scope."""
    own = case.workload.env.value if case.workload is not None else None
    return {**(case.scope.env.value or {}), **(own or {})}


@rule("DEV101", cause="gpu-not-visible", severity=Severity.ERROR)
def hidden_by_variable(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """A variable hides all devices from the engine, or names one that is not there.

    What: CUDA_VISIBLE_DEVICES and its relatives against the devices of the host.
    Why: the runtime reads the list up to the first entry that does not exist; an empty
        list, or a first entry that is wrong, leaves no device.
    How to fix: name existing indexes or UUIDs, or unset the variable.
    Silent when: the variable is unset, or its first entry exists.
    Sources: CUDA C++ Programming Guide, environment variables; ROCm and CANN guides.
    """
    env = _env(case)
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
        return
    why = f"names device {first}, and there are {len(whole)}" if beyond else "hides every device"
    yield Fault(
        message=f"{name}={value} {why}",
        evidence=(Evidence(f"{name}={value}", case.scope.env.at),),
        remedies=(Remedy(f"unset {name}, or name devices that exist", (f"unset {name}",)),),
        sources=("https://docs.nvidia.com/cuda/cuda-c-programming-guide/",),
    )


@rule("DEV102", cause="gpu-not-visible", severity=Severity.ERROR)
def mig_without_instances(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """MIG mode is on and the GPU has no instance.

    What: MIG mode of each GPU and the number of its instances.
    Why: in MIG mode the whole GPU is not a CUDA device; without instances CUDA has none
        (CUDA 100), while nvidia-smi goes on to list the card.
    How to fix: create instances, or turn MIG mode off and reset the GPU.
    Silent when: MIG is off, or instances exist or were not counted.
    Sources: NVIDIA Multi-Instance GPU user guide.
    """
    found = [d for d in case.need_vendor("nvidia") if d.mig.present("devices.mig") is not None]
    enabled = [d for d in found if d.mig.value and d.mig.value.enabled and not d.mig.value.parent]
    if not enabled:
        raise NotApplicable("MIG mode is off")
    for device in enabled:
        mig = device.mig.value
        children = [d for d in case.devices if d.mig.value and d.mig.value.parent == device.id]
        if mig is not None and mig.instances == 0 and not children:
            yield Fault(
                message=f"{cards.label(device, matrix)} is in MIG mode and has no instance",
                evidence=(Evidence("MIG mode is on, instances: 0", device.mig.at),),
                remedies=(
                    Remedy(
                        "create instances, for example one of the whole GPU",
                        ("nvidia-smi mig -lgip", "sudo nvidia-smi mig -cgi 0 -C"),
                    ),
                    Remedy(
                        "or turn MIG mode off",
                        (f"sudo nvidia-smi -i {device.index or 0} -mig 0",),
                        risk="the GPU is reset",
                    ),
                ),
                sources=("https://docs.nvidia.com/datacenter/tesla/mig-user-guide/",),
                subject=device.id,
            )
    if all(d.mig.value is not None and d.mig.value.instances is None for d in enabled):
        enabled[0].health.known("devices.mig.instances")


@rule("DEV103", cause="gpu-not-visible", severity=Severity.ERROR)
def container_without_devices(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """The container was started without a device.

    What: the devices that the container was given, and NVIDIA_VISIBLE_DEVICES.
    Why: a container sees no GPU and no driver library unless it asks for them.
    How to fix: start it with --gpus all, or with the CDI devices.
    Silent when: the target is no container, or it was given a device.
    Sources: NVIDIA Container Toolkit documentation, docker-specialized.
    """
    if case.scope.kind not in ("container", "image"):
        raise NotApplicable("not a container")
    if computes_on_cpu(case):
        raise NotApplicable("an engine that runs on the CPU, and no accelerator on the host")
    image = known_image(case.scope, matrix)
    if image is not None and image.vendor == _NPU:
        raise NotApplicable("the nodes of an NPU are asked for apart")
    yield from each((lambda: _given_none(case), lambda: _asks_for_none(case)))


def _given_none(case: Case) -> Iterator[Fault]:
    visible = case.scope.devices_visible
    nodes = missed(case, _NODES)
    if nodes:
        yield _no_device(case, Evidence(f"{nodes[0]} was not found", "absent"))
    elif not visible.known("scope.devices_visible"):
        yield _no_device(case, Evidence("the container has no device", visible.at))


def _asks_for_none(case: Case) -> Iterator[Fault]:
    env = _env(case)
    if _CONTAINER_VARIABLE not in env:
        case.scope.env.known("scope.env")
        raise NotApplicable(f"{_CONTAINER_VARIABLE} is not stated")
    value = env[_CONTAINER_VARIABLE].strip()
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
    if not case.facts.devices.is_known and case.facts.nvidia.nvml_devices.value == 0:
        yield _none_listed(case)
        return
    found = [d for d in cards.desktop_cards(case, matrix) if not _is_instance(d)]
    taken = [d for d in found if (d.pci_driver.value or "").startswith("vfio")]
    for device in taken:
        name = cards.label(device, matrix)
        yield Fault(
            message=f"{name} is bound to {device.pci_driver.value}: it is given to a "
            "virtual machine",
            evidence=(Evidence(f"driver: {device.pci_driver.value}", device.pci_driver.at),),
            remedies=(Remedy("give the device back to the host's nvidia driver"),),
            subject=device.id,
        )
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


@rule("DEV121", cause="engine-mig-unsupported", severity=Severity.ERROR)
def engine_cannot_use_mig(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """The engine version cannot use MIG instances, or not by their UUIDs.

    What: whether the devices are MIG instances and how they are named, against what is
        known of the engine version.
    Why: engines that number devices themselves fail on "MIG-..." names, or ask for the
        whole GPU, which in MIG mode is no CUDA device.
    How to fix: the way that the project names; else an index instead of a UUID, a GPU
        without MIG, or a version that can.
    Silent when: no MIG is in use, or nothing is known against it.
    Sources: issue threads of the engines (claims in the matrix).
    """
    uuid = next((v for n, v in _env(case).items() if _names_instance(n, v)), "")
    enabled = any(d.mig.value and d.mig.value.enabled for d in case.devices)
    if not uuid and not enabled:
        for device in case.need_vendor("nvidia"):
            device.mig.present("devices.mig")
        raise NotApplicable("no MIG instance is used")
    found = engine(case, matrix)
    setting = settings(case, matrix)[0]
    matches = covering(matrix, found, "mig")
    is_open = not matches and found.version is None
    for match in matches or (matrix.claims(found.name, "mig") if is_open else ()):
        wants_uuid = match.claim.key == "uuid"
        if match.claim.value == "supported" or (wants_uuid and not uuid):
            continue
        if _fits(match.claim.when, setting) and holds(match.claim, setting) is not False:
            yield Fault(
                message=f"{found.label} and MIG: {match.claim.text}",
                evidence=(found.evidence, _mig_fact(case, matrix, uuid)),
                remedies=(Remedy(match.claim.remedy),) if match.claim.remedy else (),
                sources=tuple(match.claim.source),
                extrapolated=match.extrapolated,
                severity=Severity.WARNING if is_open else None,
            )
            return


def _names_instance(name: str, value: str) -> bool:
    return name.endswith("VISIBLE_DEVICES") and bool(re.match(r"\s*MIG-", value))


def _fits(when: dict[str, str], setting: Setting) -> bool:
    """A claim about more than this case tells is left aside, except for its version."""
    return all(getattr(setting, key, None) is not None for key in when)


def _mig_fact(case: Case, matrix: Matrix, uuid: str) -> Evidence:
    if uuid:
        return Evidence(f"device named by UUID: {uuid[:60]}", case.scope.env.at)
    device = next(d for d in case.devices if d.mig.value and d.mig.value.enabled)
    return Evidence(f"{cards.label(device, matrix)}: MIG mode is on", device.mig.at)


RULES: tuple[Rule, ...] = (
    hidden_by_variable,
    mig_without_instances,
    container_without_devices,
    driver_lists_fewer,
    engine_cannot_use_mig,
)
