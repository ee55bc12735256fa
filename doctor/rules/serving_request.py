"""Is there room for one request of full length beside the weights?"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from doctor.facts import Device, Workload, seen
from doctor.findings import Evidence, Remedy
from doctor.matrix import Matrix
from doctor.matrix.architectures import ModelRow
from doctor.rules import cards
from doctor.rules.engine import Case, Fault, Severity
from doctor.rules.memory_need import Need, memory_evidence, ranks_of, total_gib
from doctor.rules.model_facts import argument, count, known_model, model_name
from doctor.rules.placement import margin
from doctor.rules.software import engine_name
from doctor.sizing.known import known_model as sized_model
from doctor.sizing.prediction import Fit, Prediction
from doctor.sizing.workload import predict_workload

# Engines that refuse to start where one request of full length has no room.
_REFUSES = ("vllm", "tgi", "aphrodite-engine")
# Number formats by which names of checkpoints differ from those of their models.
_FORMAT = re.compile(r"awq|gptq|nvfp4|fp8|int8|int4|w4a16|w8a8|bnb")


def request_exceeds(
    case: Case, matrix: Matrix, need: Need, room: tuple[Device, float]
) -> Iterator[Fault]:
    """One request of full length against what weights and overheads leave."""
    if need.is_measured and need.gib > room[1] * margin(matrix, "nearly-full"):
        yield _filled_fault(case, matrix, need, room)
        return
    found = _predicted(case, matrix)
    if found is not None and _leaves_nothing(found):
        what = f"weights and overheads of {found.model.name} leave nothing for the KV cache"
        fault = _predicted_fault(case, matrix, replace(found, why=what), room[0])
        yield replace(fault, severity=Severity.WARNING)
        return
    if found is not None and _is_long_by_default(case, matrix, found):
        yield from _little_left(case, matrix, need, room)
        return
    if found is not None and found.verdict is not Fit.UNCERTAIN:
        if found.verdict is Fit.DOES_NOT and found.pool_high is not None:
            fault = _predicted_fault(case, matrix, found, room[0])
            yield fault if _length_is_told(case) else replace(fault, severity=Severity.WARNING)
        return
    if found is not None and _most_likely_not(found):
        fault = _predicted_fault(case, matrix, found, room[0])
        yield replace(fault, severity=Severity.WARNING)
        return
    if _length_is_told(case):
        yield from _by_arithmetic(case, matrix, need, room)
    else:
        yield from _little_left(case, matrix, need, room)


def _little_left(
    case: Case, matrix: Matrix, need: Need, room: tuple[Device, float]
) -> Iterator[Fault]:
    """Weights leave less of a card than a model of that size takes for its usual length."""
    device, share = room
    size = total_gib(device, matrix)[0]
    is_running = case.workload is not None and case.workload.pid is not None
    if size is None or size > margin(matrix, "tight-card-gib") or is_running:
        return
    if engine_name(case, matrix) in _REFUSES and need.gib > size * margin(matrix, "tight"):
        yield Fault(
            f"weights of {model_name(case)} take {need.gib:.1f} GiB of {size:.1f}, and nobody "
            f"states a length: little is left of {share:.1f} for the KV cache",
            evidence=memory_evidence(case, need, device, size),
            remedies=(Remedy("set --max-model-len to what requests need, such as 4096"),),
            subject=device.id,
            severity=Severity.WARNING,
        )


def _filled_fault(case: Case, matrix: Matrix, need: Need, room: tuple[Device, float]) -> Fault:
    """The engine printed what its weights take, and that is nearly all it may use."""
    device, share = room
    return Fault(
        f"weights take {need.gib:.1f} of the {share:.1f} GiB that the engine may use of "
        f"{cards.label(device, matrix)}: next to nothing is left for the KV cache",
        evidence=memory_evidence(case, need, device, share),
        remedies=(Remedy("share the model among more devices, or use one of fewer bits"),),
        subject=device.id,
        severity=Severity.WARNING,
    )


def _by_arithmetic(
    case: Case, matrix: Matrix, need: Need, room: tuple[Device, float]
) -> Iterator[Fault]:
    """The stated length times the bytes of a token, where sizing cannot tell."""
    bits = 8 if "fp8" in str(argument(case, "kv_cache_dtype")[0]).lower() else _FULL
    asked = cache_asked(case, matrix, bits)
    if asked is None:
        return
    row, length, kv = asked
    device, share = room
    left = share - need.gib
    if kv > left * margin(matrix, "arithmetic"):
        yield Fault(
            f"one request of {length} tokens needs {kv:.1f} GiB of KV cache; weights leave "
            f"{left:.1f} GiB of {cards.label(device, matrix)}",
            evidence=memory_evidence(case, need, device, share),
            remedies=(Remedy("lower --max-model-len, or use --kv-cache-dtype fp8"),),
            sources=row.source,
            subject=device.id,
        )


_FULL = 16


def cache_asked(case: Case, matrix: Matrix, bits: int) -> tuple[ModelRow, int, float] | None:
    """The model, the stated length, and GiB of KV cache a rank takes for it; None if not known."""
    row, length = known_model(matrix, model_name(case)), count(case, "max_model_len")
    if row is None or not row.plain_attention or row.kv_bytes_per_token is None or not length:
        return None
    ranks = min(count(case, "tensor_parallel_size") or 1, row.kv_heads or 1)
    return row, length, length * row.kv_bytes_per_token * bits / _FULL / ranks / (1 << 30)


def _length_is_told(case: Case) -> bool:
    running = case.workload is not None and case.workload.pid is not None
    return running or count(case, "max_model_len") is not None


def _is_long_by_default(case: Case, matrix: Matrix, found: Prediction) -> bool:
    """Where the model takes very long requests, everybody sets a length, and may not say so."""
    usual = margin(matrix, "default-length")
    return not _length_is_told(case) and (found.model.positions or 0) > usual


def _leaves_nothing(found: Prediction) -> bool:
    """No length is known, and even a request of one token has most likely no room."""
    is_sized = found.pool is not None and found.has_pool_model
    return is_sized and found.request is None and (found.pool or 0) < 0


def _most_likely_not(found: Prediction) -> bool:
    """Only the far end of what the pool may be would hold the request."""
    pool, high, request = found.pool, found.pool_high, found.request
    if pool is None or high is None or request is None or not found.has_pool_model:
        return False
    return request > (pool + high) / 2


def _predicted_fault(case: Case, matrix: Matrix, found: Prediction, device: Device) -> Fault:
    longest = f"; {found.longest} tokens would fit" if found.longest else ""
    return Fault(
        f"{found.why}, on {cards.label(device, matrix)}{longest}",
        evidence=(
            Evidence(
                f"{found.model.name}, {found.serving.length} tokens",
                argument(case, "model")[1],
            ),
            cards.evidence(device, matrix),
        ),
        remedies=(Remedy("lower --max-model-len, or use --kv-cache-dtype fp8"),),
        sources=found.sources,
        subject=device.id,
    )


def _predicted(case: Case, matrix: Matrix) -> Prediction | None:
    """What sizing says of the workload; None where too little is known to ask.

    Asked only where the longest request is stated, or the arguments are those of a running
    engine: people leave most arguments out of a report. Where no ranks are stated, all
    devices are taken to share the model, the best case.
    """
    work, ranks = case.workload, ranks_of(case, matrix)
    complete = work is not None and work.pid is not None
    if work is None or ranks is None:
        return None
    args = work.args.value or {}
    if not complete and "tensor_parallel_size" not in args:
        stated = {
            **args,
            "tensor_parallel_size": ranks // (count(case, "pipeline_parallel_size") or 1),
        }
        work = replace(work, args=seen(stated, work.args.at))
    return predict_workload(matrix, _with_full_name(case, matrix, work), case.devices)


def _with_full_name(case: Case, matrix: Matrix, work: Workload) -> Workload:
    """The workload with the repository of a model that was named in short, and its format."""
    name = model_name(case)
    row = known_model(matrix, name)
    if row is None or "/" not in row.repo or sized_model(matrix, name) is not None:
        return work
    full = "-".join((row.repo, *_FORMAT.findall(name.lower())))
    return replace(work, args=seen({**(work.args.value or {}), "model": full}, work.args.at))
