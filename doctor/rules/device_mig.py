"""Slices of a GPU (MIG): are there any, and can the engine use them?"""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.findings import Evidence, Remedy
from doctor.matrix import Matrix
from doctor.rules import cards
from doctor.rules.engine import Case, Fault, NotApplicable, Rule, Severity, rule
from doctor.rules.model_facts import environment
from doctor.rules.settings import Setting, covering, holds, settings
from doctor.rules.software import engine


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
    uuid = next((v for n, v in environment(case).items() if _names_instance(n, v)), "")
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


RULES: tuple[Rule, ...] = (mig_without_instances, engine_cannot_use_mig)
