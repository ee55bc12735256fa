"""Does the engine find devices of a kind that it has builds for, and that can work together?"""

from __future__ import annotations

from collections.abc import Iterator

from doctor.facts import Device, Missing, MissingFact
from doctor.findings import Evidence, Remedy
from doctor.matrix import ClaimMatch, Matrix
from doctor.rules.engine import Case, Fault, NotApplicable, Severity, rule
from doctor.rules.framework import wants_cpu
from doctor.rules.host_room import processes
from doctor.rules.image_facts import known_image
from doctor.rules.model_facts import environment
from doctor.rules.settings import covering
from doctor.rules.software import Software, engine

# What reports about a host itself name in place of an engine.
_NO_ENGINES = frozenset({"driver", "cuda", "container-toolkit", "gpu-operator"})
_SEVERAL = 2
_UNSTATED = Missing.NOT_STATED
_LOOK = Remedy(
    "if this machine has a card, see whether its bus shows it",
    ("lspci -nn | grep -iE '3d|vga|display|processing'",),
)


@rule("DEV105", cause="gpu-not-visible", severity=Severity.ERROR, gate=True)
def no_device_for_engine(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """The engine needs an accelerator, and this host shows none that it has builds for.

    What: the devices of the host against what the matrix says that the engine cannot run
        without.
    Why: the engine looks for a device when it starts and stops where it finds none; builds
        for the CPU are packages of their own.
    How to fix: the engine's CPU build, an engine for this kind of device, or, if the host
        has a card, what keeps it from being seen.
    Silent when: a CPU run or build is asked for, or the engine runs anywhere. Of an engine
        that the matrix does not know nothing can be told.
    Sources: installation pages and issue threads of the engines (rows in the matrix).
    """
    found = engine(case, matrix)
    if matrix.canonical(found.name) is None and found.name not in _NO_ENGINES:
        raise MissingFact(f"what {found.name} needs: the matrix does not know it", _UNSTATED)
    claims = covering(matrix, found, "platform", "no-accelerator")
    if not claims:
        raise NotApplicable(f"nothing says that {found.name} needs an accelerator")
    image = known_image(case.scope, matrix)
    if wants_cpu(case) or (image is not None and image.vendor in ("cpu", "any")):
        raise NotApplicable("a CPU run or build was asked for")
    devices = case.facts.devices.present("devices") or ()
    if case.facts.devices.partial:
        raise MissingFact("devices, all of them", _UNSTATED, case.facts.devices.at)
    for match in claims:
        wanted = match.claim.data.get("vendors") or ()
        if not any(d.vendor in wanted for d in devices) if wanted else not devices:
            yield _fault(case, found, match, devices)
            return


def _fault(case: Case, found: Software, match: ClaimMatch, devices: tuple[Device, ...]) -> Fault:
    here = ", ".join(dict.fromkeys(d.name.value or d.vendor for d in devices))
    claim = match.claim
    return Fault(
        message=f"{found.label} has no device here: {claim.text}",
        evidence=(
            Evidence(f"devices: {here}" if here else "no accelerator", case.facts.devices.at),
            found.evidence,
        ),
        remedies=(Remedy(claim.remedy), _LOOK),
        sources=tuple(claim.source),
        extrapolated=match.extrapolated,
    )


@rule("DEV122", cause="engine-mig-unsupported", severity=Severity.ERROR)
def ranks_over_mig_instances(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """Several ranks are asked for, and the devices are MIG instances.

    What: the ranks that the arguments ask for, where all devices are in MIG mode or are
        named by UUIDs of instances.
    Why: CUDA lists one MIG instance to a process, and instances have no peer access:
        tensor or pipeline parallel work cannot run over them.
    How to fix: one instance and one rank, or GPUs without MIG.
    Silent when: one rank is asked for, or a device without MIG is there.
    Sources: NVIDIA Multi-Instance GPU user guide, application considerations.
    """
    ranks = processes(case)
    named = environment(case).get("CUDA_VISIBLE_DEVICES", "")
    if ranks is None or ranks < _SEVERAL:
        raise NotApplicable("one rank, or nothing tells of more")
    devices = case.need_vendor("nvidia")
    modes = [device.mig.present("devices.mig") for device in devices]
    if named.strip().startswith("MIG-") or all(mode and mode.enabled for mode in modes):
        yield Fault(
            message=f"{ranks} ranks are asked for, and MIG instances cannot work together",
            evidence=(Evidence(named[:60] or "MIG mode is on", devices[0].mig.at),),
            remedies=(Remedy("use one instance with one rank, or GPUs without MIG"),),
            sources=("https://docs.nvidia.com/datacenter/tesla/mig-user-guide/",),
        )


RULES = (no_device_for_engine, ranks_over_mig_instances)
