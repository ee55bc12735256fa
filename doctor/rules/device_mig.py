"""Slices of a GPU (MIG): are there any, and can the engine use them?"""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.facts import Device
from doctor.findings import Evidence, Remedy
from doctor.matrix import Matrix
from doctor.rules import cards
from doctor.rules.engine import Case, Fault, NotApplicable, Rule, Severity, rule
from doctor.rules.host_room import processes
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


@rule("DEV123", cause="engine-mig-unsupported", severity=Severity.WARNING)
def several_instances_for_one_process(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """Several MIG instances are there, and one process is to use them all.

    What: MIG mode, and notes that tell of several instances and of a process that sees one; or
        several instances that somebody lists for a program of torch, of which none is named.
    Why: CUDA shows a process one MIG instance, the first that is visible; no instance reaches
        the memory of another.
    How to fix: one process for each instance, or the whole GPU without MIG.
    Silent when: MIG is off, or nobody tells of several instances; ranks that are asked for are
        judged by another rule.
    Sources: NVIDIA Multi-Instance GPU user guide, application considerations.
    """
    found = [d for d in case.need_vendor("nvidia") if d.mig.value and d.mig.value.enabled]
    if not found:
        raise NotApplicable("MIG mode is not known to be on")
    several = next(filter(None, map(_SEVERAL.search, case.facts.notes)), None)
    one = next(filter(None, map(_ONE_SEEN.search, case.facts.notes)), None)
    evidence: tuple[Evidence, ...] = ()
    if several is not None and one is not None:
        evidence = (Evidence(several[0], "notes"), Evidence(one[0], "notes"))
    elif _are_listed_for_torch(case, found):
        evidence = (Evidence(f"{len(found)} MIG instances", found[0].mig.at),)
    if evidence:
        yield Fault(
            message="a process sees one MIG instance, however many there are: device counts of "
            "NVML and CUDA differ",
            evidence=evidence,
            remedies=(
                Remedy("one process for each instance: CUDA_VISIBLE_DEVICES=MIG-..."),
                Remedy("or the whole GPU without MIG", risk="the GPU is reset"),
            ),
            sources=(
                "https://docs.nvidia.com/datacenter/tesla/mig-user-guide/",
                "https://github.com/pytorch/pytorch/issues/130181",
            ),
            subject=found[0].id,
        )


def _are_listed_for_torch(case: Case, instances: list[Device]) -> bool:
    """Several are listed in a report, and nothing else; no rank is asked for, none is named."""
    told = [device for device in instances if device.mig.at.startswith("gpus")]
    work = case.workload
    return (
        len(told) > 1
        and len(told) == len(case.nvidia_devices)
        and work is not None
        and work.engine in _ONE_PROCESS
        and processes(case) is None
        and not environment(case).get("CUDA_VISIBLE_DEVICES", "")
    )


_ONE_PROCESS = ("torch", "llama.cpp")  # they use all devices from one process
_SEVERAL = re.compile(
    r"\b(?:several|multiple|two|three|four|seven|[2-7]|all)\b[^.;\n]{0,20}\bMIG\b|"
    r"\bMIG\b[^.;\n]{0,20}\b(?:several|multiple|[2-7]) ?(?:instances|devices|slices)",
    re.IGNORECASE,
)
_ONE_SEEN = re.compile(
    r"device_count\(\)[^.;\n\d]{0,12}\b1\b|\bonly (?:one|1|the first)\b|"
    r"\b(?:sees?|finds?|uses?|shows?|counts?) (?:only )?(?:one|1|the first)\b",
    re.IGNORECASE,
)

RULES: tuple[Rule, ...] = (
    mig_without_instances,
    engine_cannot_use_mig,
    several_instances_for_one_process,
)
