"""What passes through the memory of the host: weights while they load, compilers of a build."""

from __future__ import annotations

from collections.abc import Iterator

from doctor.findings import Evidence, Remedy
from doctor.matrix import Matrix
from doctor.rules import cards
from doctor.rules.engine import Case, Fault, NotApplicable, Rule, Severity, rule
from doctor.rules.memory_need import checkpoint
from doctor.rules.model_facts import environment
from doctor.rules.placement import placement
from doctor.rules.settings import covering
from doctor.rules.software import engine

_MIB_PER_GIB = 1024


@rule("HST163", cause="host-ram-too-small", severity=Severity.WARNING)
def weights_exceed_host_memory(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """A plain framework loads a model that is larger than the memory of the host.

    What: the size of the checkpoint against host memory and swap, for frameworks that put a
        model where a script says.
    Why: the weights are read into host memory before they go to the device; the kernel kills
        the process, or the machine stands still, though the device would hold them.
    How to fix: files that are mapped (safetensors) and loaded straight to the device
        (device_map), a smaller format, more memory or swap.
    Silent when: the engine loads shard by shard, memory or the model's size is not known, or
        devices share the memory of the host.
    Sources: Transformers documentation, loading of big models.
    """
    if case.workload is None or placement(case, matrix).holds != "process":
        raise NotApplicable("no plain framework")
    rows = (row for d in case.devices for row in cards.products(d, matrix))
    if any(row.unified_memory for row in rows) or any(d.vendor == "apple" for d in case.devices):
        raise NotApplicable("the devices share the memory of the host")
    need = checkpoint(case, matrix)
    if need is None or not need.total_gib:
        raise NotApplicable("the size of the model is not known")
    host = case.facts.host
    memory = host.memory_mib.known("host.memory_mib") + (host.swap_mib.value or 0)
    have = memory / _MIB_PER_GIB
    if need.total_gib > have:
        yield Fault(
            f"the weights are {need.total_gib:.0f} GiB and pass through host memory, which is "
            f"{have:.0f} GiB",
            evidence=(
                Evidence(f"weights: {need.how}", case.workload.args.at),
                Evidence(f"memory and swap: {have:.1f} GiB", host.memory_mib.at),
            ),
            remedies=(
                Remedy("load safetensors straight to the device (device_map), or in fewer bits"),
                Remedy("or give the host more memory or swap; in WSL by memory= in .wslconfig"),
            ),
            sources=("https://huggingface.co/docs/transformers/big_models",),
        )


@rule("HST164", cause="host-ram-too-small", severity=Severity.WARNING)
def build_exceeds_host_memory(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """A package is compiled with as many compilers as there are processors, in little memory.

    What: packages that are compiled here, of which the matrix records how much memory a build
        without a limit takes, against the memory of the host and the variable MAX_JOBS.
    Why: each compiler takes some GiB; the machine freezes, or compilers are killed.
    How to fix: set MAX_JOBS, or take a ready wheel.
    Silent when: MAX_JOBS is set, nothing is compiled, or the memory is not known.
    Sources: installation pages of the projects (rows in the matrix).
    """
    if case.workload is None or not case.workload.building.is_known:
        raise NotApplicable("nothing is compiled here")
    found = engine(case, matrix)
    rows = covering(matrix, found, "build-memory")
    if not rows:
        raise NotApplicable(f"no figure is known for a build of {found.name}")
    words = case.workload.building
    if environment(case).get("MAX_JOBS") or "max_jobs" in (words.value or "").lower():
        return
    memory = case.facts.host.memory_mib.known("host.memory_mib") / _MIB_PER_GIB
    claim = rows[0].claim
    if memory < float(claim.value):
        yield Fault(
            f"a build of {found.label} without MAX_JOBS may take {claim.value} GiB, and the host "
            f"has {memory:.0f}: {claim.text}",
            evidence=(
                Evidence((words.value or "")[:120], words.at),
                Evidence(f"memory {memory:.0f} GiB", case.facts.host.memory_mib.at),
            ),
            remedies=(Remedy(claim.remedy),),
            sources=claim.source,
        )


RULES: tuple[Rule, ...] = (weights_exceed_host_memory, build_exceeds_host_memory)
