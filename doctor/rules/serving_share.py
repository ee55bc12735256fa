"""Rules about the share of a device's memory that an engine is told to take."""

from __future__ import annotations

from collections.abc import Iterator

from doctor.findings import Evidence, Remedy
from doctor.matrix import Matrix
from doctor.rules import cards
from doctor.rules.engine import Case, Fault, NotApplicable, Severity, rule
from doctor.rules.memory_need import total_gib, weights
from doctor.rules.model_facts import argument, number
from doctor.rules.serving_memory import default_share, is_share_of_total
from doctor.rules.settings import possible, settings
from doctor.rules.software import engine

# Names under which engines and people state what a device has, and what of it is free.
_TOTAL = ("total_gib", "total_memory_gib", "gpu_total_gib")
_FREE = ("free_gib", "free_memory_gib", "gpu_free_gib", "available_gib", "free_gpu_gib")


@rule("SRV104", cause="memory-utilization-too-high", severity=Severity.ERROR)
def fraction_exceeds_free_memory(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """The share of memory that is asked for is more than is free, or leaves too little over.

    What: the fraction times the device's memory against its free memory, for an engine
        that is not yet running; and the fraction against the highest that the matrix
        calls sound.
    Why: the engine refuses to start where less is free; what it does not count (CUDA
        context, communication buffers) needs room beside the share.
    How to fix: stop what holds the memory, or lower the fraction.
    Silent when: the engine is running (its own memory is in use), the fraction means a
        share of what is free, or nobody states it and the weights alone are more than a device has.
    Sources: vLLM worker start-up check; vllm-project/vllm-ascend issue 89 (rows in the matrix).
    """
    fraction = number(case, "gpu_memory_utilization")
    if fraction is None and _says_what_is_free(case) and not _weights_exceed(case, matrix):
        fraction = default_share(case, matrix)
    if fraction is None:
        raise NotApplicable("no share of the total memory is asked for")
    of_total = is_share_of_total(case, matrix)
    if of_total and fraction > 1:
        yield _fraction_fault(case, f"gpu_memory_utilization {fraction:g} is more than 1", None)
        return
    unsound = list(_above_sound_share(case, matrix, fraction))
    yield from unsound
    if not of_total:
        if not unsound:
            raise NotApplicable("it means a share of something else")
        return
    if case.workload is not None and case.workload.pid is not None:
        return
    stated = list(_beyond_what_is_free(case, fraction))
    yield from stated
    if stated:
        return
    for device in case.devices:
        total, free = device.memory_mib.value, device.memory_free_mib.value
        if total and free is not None and fraction * total > free:
            what = (
                f"gpu_memory_utilization {fraction:g} is {fraction * total / 1024:.1f} GiB of "
                f"{cards.label(device, matrix)}; {free / 1024:.1f} GiB are free"
            )
            yield _fraction_fault(case, what, None)


def _beyond_what_is_free(case: Case, fraction: float) -> Iterator[Fault]:
    """The share of what a device has against what is free of it, where both were measured."""
    measured = (case.workload.measured.value or {}) if case.workload else {}
    whole = next((measured[name] for name in _TOTAL if name in measured), None)
    left = next((measured[name] for name in _FREE if name in measured), None)
    if whole is None and left is not None:
        whole = min(
            (d.memory_mib.value / 1024 for d in case.devices if d.memory_mib.value), default=None
        )
    if whole and left is not None and fraction * whole > left:
        what = f"{fraction * whole:.1f} GiB are asked for and {left:.1f} are free"
        yield _fraction_fault(case, what, None)


def _says_what_is_free(case: Case) -> bool:
    """Somebody measured the free memory before the engine took its share, and says so."""
    work = case.workload
    figures = (work.measured.value or {}) if work is not None else {}
    return any(name in figures for name in _FREE)


def _weights_exceed(case: Case, matrix: Matrix) -> bool:
    """The weights fill a device by themselves: what is said to be free is what they left."""
    need = weights(case, matrix)
    sizes = [total_gib(device, matrix)[0] for device in case.devices]
    return need is not None and any(size is not None and need.gib > size for size in sizes)


def _above_sound_share(case: Case, matrix: Matrix, fraction: float) -> Iterator[Fault]:
    found = engine(case, matrix)
    setting = settings(case, matrix)[0]
    claims = possible(matrix, found, "parameter", setting, "gpu_memory_utilization")
    for match, _ in claims:
        sound = match.claim.data.get("sound_up_to")
        if sound and fraction > float(sound):
            what = f"gpu_memory_utilization {fraction:g} leaves too little beside it"
            # A share that leaves something is doubtful only where somebody states the limit.
            is_doubt = fraction < 1 and match.claim.confidence == "inferred"
            level = Severity.INFO if is_doubt else Severity.WARNING
            yield _fraction_fault(case, what, level, match.claim.source)
            return


def _fraction_fault(
    case: Case, what: str, severity: Severity | None, sources: tuple[str, ...] = ()
) -> Fault:
    at = argument(case, "gpu_memory_utilization")[1]
    return Fault(
        what,
        evidence=(Evidence("gpu_memory_utilization", at),),
        remedies=(Remedy("stop what holds the memory, or ask for less (0.85 to 0.9)"),),
        sources=sources,
        severity=severity,
    )


@rule("DEV152", cause="gpu-busy", severity=Severity.WARNING)
def memory_of_nobody(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """Of a device's memory much is neither free nor held by this process.

    What: the size of the device against what is free and what the process says it has, as the
        message of a failed allocation prints them.
    Why: the rest is held by other processes, or by those that were not ended.
    How to fix: find and end them, or take another device.
    Silent when: one of the figures is not known, or the rest is what a context takes.
    Sources: PyTorch CUDA memory management documentation.
    """
    figures = (case.workload.measured.value or {}) if case.workload else {}
    free = next((figures[name] for name in _FREE if name in figures), None)
    own = next((figures[name] for name in _OWN if name in figures), None)
    whole = next((figures[name] for name in _TOTAL if name in figures), None)
    whole = whole or max(
        (d.memory_mib.value / 1024 for d in case.devices if d.memory_mib.value), default=None
    )
    if free is None or own is None or whole is None:
        raise NotApplicable("what is free and what is held was not measured")
    others = whole - free - own
    if others > max(whole / _PART, _CONTEXT):
        yield Fault(
            f"{others:.1f} of {whole:.1f} GiB are neither free nor held by this process",
            evidence=(Evidence(f"free {free:.2f}, held {own:.2f} GiB", "measured"),),
            remedies=(
                Remedy(
                    "see what holds the rest, and end it if it is left over",
                    ("nvidia-smi", "fuser -v /dev/nvidia*"),
                ),
            ),
        )


_OWN = ("reserved_gib", "allocated_gib", "in_use_gib")
_PART, _CONTEXT = 4, 1.0  # a quarter of the memory, and GiB that contexts and libraries take


RULES = (
    memory_of_nobody,
    fraction_exceeds_free_memory,
)
