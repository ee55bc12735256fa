"""May the user open the devices: what people tell of it."""

from __future__ import annotations

from collections.abc import Iterator

from doctor.findings import Evidence, Remedy
from doctor.matrix import Matrix
from doctor.rules.engine import Case, Fault, NotApplicable, Rule, Severity, rule
from doctor.rules.framework import wants_cpu

_NPU = "ascend"


@rule("DEV144", cause="device-permission", severity=Severity.WARNING)
def said_to_be_closed(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """Somebody tells that this user, or this container, may not open the devices.

    What: that it works as root alone, or for another user; that the user is not in the group
        render or video; a container with AMD's nodes and without that group; SELinux, which
        confines a container of Podman or one with AMD's nodes.
    Why: the nodes under /dev belong to a group and are closed to others on most systems;
        then the runtime finds no device, and many engines go on with the CPU.
    How to fix: join the group and log in again; give the container the group of the nodes,
        and where SELinux confines it the boolean or label for devices.
    Silent when: nobody tells of it, a CPU run is asked for, or the devices are NPUs, whose
        rights are judged apart.
    Sources: ROCm installation guide, group permissions; NVIDIA driver README, device file
        permissions; podman-run(1), --group-add and label options.
    """
    vendors = {device.vendor for device in case.devices}
    if wants_cpu(case) or vendors == {_NPU}:
        raise NotApplicable("no GPU that is to be opened")
    said = case.scope.closed.value
    if said is None:  # rights that were read are judged by other rules
        return
    yield Fault(
        message=f"the devices are closed to this user or container: {said}",
        evidence=(Evidence(said, case.scope.closed.at),),
        remedies=(
            Remedy(
                "join the group that owns the nodes, and log in again",
                (
                    "stat -c '%G %a %n' /dev/kfd /dev/dri/renderD* /dev/nvidia*",
                    "sudo usermod -aG video,render $USER",
                ),
            ),
            Remedy(
                "or give the container that group; with SELinux turn the boolean "
                "container_use_devices on",
                ("docker run --group-add render --group-add video ...",),
            ),
        ),
        sources=("https://rocm.docs.amd.com/projects/install-on-linux/en/latest/",),
    )


RULES: tuple[Rule, ...] = (said_to_be_closed,)
