"""The share of memory beside what else lives on the card: a desktop, Windows, the host itself."""

from __future__ import annotations

from collections.abc import Iterator

from doctor.facts import Device
from doctor.findings import Evidence, Remedy
from doctor.matrix import Matrix
from doctor.rules import cards
from doctor.rules.engine import Case, Fault, NotApplicable, Rule, Severity, rule
from doctor.rules.model_facts import argument, number
from doctor.rules.serving_memory import is_share_of_total
from doctor.rules.serving_told import is_told, told

_WHOLE = 0.94  # above this nothing is left for a desktop or an operating system


@rule("SRV108", cause="memory-utilization-too-high", severity=Severity.WARNING)
def share_beside_others(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """Nearly all of the memory is asked for on a card that something else uses as well.

    What: the fraction against what lives on the card too: a desktop that is told of, Windows
        around WSL, or the host where card and host share one memory.
    Why: a desktop takes one or two GiB and grows; what shares the memory of the host takes
        much more. The engine finds less free than it asks for, or runs out later.
    How to fix: ask for a smaller share (0.8 to 0.9; 0.7 or less of a shared memory).
    Silent when: the card is the engine's alone, the share is moderate, or it means a share of
        what is free.
    Sources: vLLM worker start-up check; NVIDIA user guides of DGX Spark and CUDA on WSL.
    """
    share = number(case, "gpu_memory_utilization")
    if share is None or share > 1 or not is_share_of_total(case, matrix):
        raise NotApplicable("no share of the total memory is asked for")
    other = _other(case, matrix)
    if other is None:
        raise NotApplicable("nothing tells of others on the card")
    if share >= _WHOLE:
        yield Fault(
            f"{share:g} of the memory is asked for, and {other.fact}",
            evidence=(
                Evidence(f"share {share:g}", argument(case, "gpu_memory_utilization")[1]),
                other,
            ),
            remedies=(Remedy("ask for a smaller share: 0.85, and 0.7 of a shared memory"),),
        )


def _other(case: Case, matrix: Matrix) -> Evidence | None:
    if is_told(case, "desktop_on_card"):
        words = told(case, "desktop_on_card")
        return Evidence(f"a desktop uses the card: {words.fact}", words.at)
    if case.facts.host.platform.value == "wsl2":
        return Evidence("Windows uses the card as well", case.facts.host.platform.at)
    shared = next((d for d in case.nvidia_devices if _is_shared(d, matrix)), None)
    if shared is not None:
        return Evidence(f"{cards.label(shared, matrix)} shares its memory with the host")
    return None


def _is_shared(device: Device, matrix: Matrix) -> bool:
    rows = matrix.gpus_matching(device)
    return bool(rows) and all(row.unified_memory for row in rows)


RULES: tuple[Rule, ...] = (share_beside_others,)
