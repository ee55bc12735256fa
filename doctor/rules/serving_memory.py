"""Rules about device memory while serving: weights, KV cache, the fraction asked for."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from doctor.facts import Device, Missing, MissingFact
from doctor.findings import Evidence, Remedy
from doctor.matrix import Matrix
from doctor.rules import cards
from doctor.rules.engine import Case, Fault, NotApplicable, Severity, rule
from doctor.rules.memory_need import (
    Need,
    is_one_assumed,
    memory_evidence,
    nominal_gib,
    total_gib,
    weights,
)
from doctor.rules.model_facts import argument, count, model_name, number
from doctor.rules.placement import margin, placement
from doctor.rules.serving_request import cache_asked, request_exceeds
from doctor.rules.settings import possible, settings
from doctor.rules.software import engine
from doctor.sizing.cards import GIB, card_of

_SEVERAL, _FULL = 2, 16
# Names under which engines and people state the pool, and what one request asks of it.
_POOL = ("kv_gib", "kv_cache_gib", "kv_available_gib", "available_kv_gib")
_ASKED = ("kv_needed_gib", "kv_required_gib", "needed_kv_gib", "kv_request_gib")
_FIGURE = re.compile(r"0?\.\d+|1(?:\.0*)?")
# Arguments that keep part of the weights off the devices.
OFFLOAD = ("cpu_offload_gb", "cpu_offload", "offload_folder", "device_map")


def smallest(case: Case, matrix: Matrix) -> tuple[Device, float, bool]:
    """The device with the least memory, its size in GiB, and whether that was read."""
    case.facts.devices.known("devices")
    sizes = [(d, *total_gib(d, matrix)) for d in case.devices]
    known = [(d, size, read) for d, size, read in sizes if size is not None]
    if not known:
        raise MissingFact("memory of the devices", Missing.NOT_STATED)
    return min(known, key=lambda item: item[1])


def _need(case: Case, matrix: Matrix) -> Need:
    if case.workload is None or placement(case, matrix).holds != "device":
        raise NotApplicable("no engine that keeps all weights on the device")
    kept = number(case, "cpu_offload_gb") or 0.0
    if any(argument(case, name)[0] for name in OFFLOAD) and not kept:
        raise NotApplicable("weights are partly off the device")
    need = weights(case, matrix)
    if need is None:
        raise MissingFact("size of the model", Missing.NOT_STATED)
    if kept and not need.is_measured:
        how = f"{need.how}, {kept:g} of them in host memory"
        return replace(need, gib=max(need.gib - kept, 0.0), total_gib=0.0, how=how)
    return need


def _exceeds(need: Need, room: float, matrix: Matrix) -> bool:
    is_figure = need.is_measured or need.is_exact
    return need.gib > room * (1.0 if is_figure else margin(matrix, "arithmetic"))


def _fills(need: Need, size: float, matrix: Matrix, share: str = "nearly-full") -> bool:
    """Published weights that leave nothing, or nearly nothing, of the size to all else."""
    return (need.is_published or need.is_exact) and need.gib > size * margin(matrix, share)


@rule("SRV101", cause="insufficient-memory-weights", severity=Severity.ERROR)
def weights_do_not_fit(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """The weights are larger than the memory of the devices that share them.

    What: the measured weights, else parameters times bits over the ranks, against the
        memory of the smallest device.
    Why: all weights must be on the devices before anything else can be; a mixture of
        experts needs all of its experts.
    How to fix: a smaller number format, more ranks, or larger devices.
    Silent when: the engine can leave layers to the CPU, offloading was asked for, or model
        or format are not known. Only a clear excess counts where it is arithmetic. A warning
        where the format is only that of most checkpoints, where no argument shares the
        weights among the devices that are here, and where they would just fit with nothing left.
    Sources: configurations of the models (rows in the matrix).
    """
    need = _need(case, matrix)
    device, size, is_read = smallest(case, matrix)
    alone = _of_one_device(case, matrix, need)
    too_large = _exceeds(need, size, matrix) or (is_read and _fills(need, size, matrix, "full"))
    if too_large or _fills(need, size, matrix):
        severity = Severity.WARNING if need.is_assumed or not too_large else None
        yield _weights_fault(case, matrix, need, (device, size), severity)
    elif alone is not None and _exceeds(alone, size, matrix):
        if alone.gib > size * margin(matrix, "one-device"):
            return  # so plainly that who runs it has set the ranks, and left them out here
        yield _weights_fault(case, matrix, alone, (device, size), Severity.WARNING)


def _of_one_device(case: Case, matrix: Matrix, need: Need) -> Need | None:
    """What one device must hold if the arguments, which name no ranks, are all there are."""
    is_running = case.workload is not None and case.workload.pid is not None
    stated = any(count(case, f"{kind}_parallel_size") for kind in ("tensor", "pipeline"))
    if stated or is_running or argument(case, "config")[0] or len(case.devices) < _SEVERAL:
        return None
    if not placement(case, matrix).one_by_default:
        return None
    how = f"{need.how}; without tensor_parallel_size one device is used"
    return replace(need, gib=need.total_gib, how=how) if need.total_gib else None


def _weights_fault(
    case: Case,
    matrix: Matrix,
    need: Need,
    where: tuple[Device, float],
    severity: Severity | None,
) -> Fault:
    device, size = where
    return Fault(
        f"{model_name(case) or 'the model'} needs {need.gib:.1f} GiB a device for weights; "
        f"{cards.label(device, matrix)} has {size:.1f}",
        evidence=memory_evidence(case, need, device, size),
        remedies=(
            Remedy("use a checkpoint of fewer bits (FP8, then 4 bit)"),
            Remedy("or share it among more devices with tensor_parallel_size"),
        ),
        subject=device.id,
        severity=severity,
    )


@rule("SRV102", cause="insufficient-memory-kv", severity=Severity.ERROR)
def no_room_for_kv(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """Nothing, or too little for one request of full length, is left for the KV cache.

    What: what the engine printed of its KV cache (size, tokens) against zero and against
        the maximum length; else the fraction asked for against the weights alone.
    Why: the fraction caps everything the engine may use, weights included; a request must
        fit into the KV cache as a whole.
    How to fix: raise the fraction, lower the maximum length, quantize weights or KV cache,
        or use more ranks.
    Silent when: the weights themselves do not fit (another rule), or no figure is known.
    Sources: vLLM determine_num_available_blocks; vllm-project/vllm issues 7028, 10517, 13882.
    """
    measured = (case.workload.measured.value or {}) if case.workload else {}
    pool = next((measured[k] for k in _POOL if k in measured), None)
    asked = next((measured[k] for k in _ASKED if k in measured), None)
    tokens, wanted = measured.get("kv_tokens"), count(case, "max_model_len")
    if pool is not None and pool <= 0:
        yield _kv_fault(case, f"{pool:.2f} GiB are left for the KV cache", f"KV cache {pool} GiB")
    elif pool is not None and asked is not None and asked > pool:
        what = f"one request needs {asked:.2f} GiB of KV cache and {pool:.2f} are there"
        yield _kv_fault(case, what, f"KV cache {pool} GiB")
    elif tokens is not None and wanted is not None and tokens < wanted:
        what = f"the KV cache holds {tokens:.0f} tokens and max_model_len is {wanted}"
        yield _kv_fault(case, what, f"KV cache of {tokens:.0f} tokens")
    elif pool is None and tokens is None:
        yield from _fraction_below_weights(case, matrix)


def _kv_fault(case: Case, what: str, evidence: str) -> Fault:
    return Fault(
        what,
        evidence=(Evidence(evidence, case.workload.measured.at if case.workload else ""),),
        remedies=(
            Remedy("lower --max-model-len, or raise --gpu-memory-utilization towards 0.9"),
            Remedy("or use a smaller number format for weights or KV cache"),
        ),
    )


def _fraction_below_weights(case: Case, matrix: Matrix) -> Iterator[Fault]:
    fraction = number(case, "gpu_memory_utilization") or default_share(case, matrix)
    need = _need(case, matrix)
    if fraction is None:
        raise MissingFact("KV cache of the engine", Missing.NOT_STATED)
    device, size, _ = smallest(case, matrix)
    if _is_beside_weights(case, matrix):
        yield from _cache_beside_weights(case, matrix, need, fraction)
        return
    if not is_share_of_total(case, matrix):
        raise NotApplicable("the fraction means something else in this engine")
    if _exceeds(need, size, matrix) or _fills(need, size, matrix):
        return
    severity = Severity.WARNING if _is_guess(case, matrix) else None
    size = _counted(device, size, matrix)
    if not _exceeds(need, size * fraction, matrix):
        if device.memory_mib.value is None and len(nominal_gib(device, matrix)) != 1:
            raise MissingFact("memory of the devices", Missing.NOT_STATED)
        found = request_exceeds(case, matrix, need, (device, size * fraction))
        yield from (replace(fault, severity=fault.severity or severity) for fault in found)
    else:
        yield Fault(
            f"gpu_memory_utilization {fraction:g} allows {size * fraction:.1f} GiB, and the "
            f"weights alone take {need.gib:.1f}",
            evidence=memory_evidence(case, need, device, size),
            remedies=(Remedy("leave it at the default: it caps weights and KV cache together"),),
            subject=device.id,
            severity=severity,
        )


def _counted(device: Device, size: float, matrix: Matrix) -> float:
    """What CUDA counts of a product's memory, where people write its nominal size."""
    card = card_of(matrix, device) if device.memory_mib.is_known else None
    return size if card is None else min(size, card.total / GIB)


def _is_guess(case: Case, matrix: Matrix) -> bool:
    """Only a default is known where arguments may be left out, or one device is assumed."""
    is_running = case.workload is not None and case.workload.pid is not None
    is_stated = number(case, "gpu_memory_utilization") is not None
    return is_one_assumed(case, matrix) or not (is_running or is_stated)


def default_share(case: Case, matrix: Matrix) -> float | None:
    """The largest share that a version which it may be takes by itself; None if unknown."""
    found, setting = engine(case, matrix), settings(case, matrix)[0]
    rows = possible(matrix, found, "parameter", setting, "gpu_memory_utilization")
    defaults = [str(match.claim.data.get("default", "")) for match, _ in rows]
    return max((float(text) for text in defaults if _FIGURE.fullmatch(text)), default=None)


def is_share_of_total(case: Case, matrix: Matrix) -> bool:
    """Engines give the fraction several meanings; only a share of the total can be compared."""
    meanings = _meanings(case, matrix)
    return any("total" in meaning for meaning in meanings) or not any(meanings)


def _is_beside_weights(case: Case, matrix: Matrix) -> bool:
    meanings = _meanings(case, matrix)
    return bool(meanings) and all("beside the weights" in meaning for meaning in meanings)


def _meanings(case: Case, matrix: Matrix) -> list[str]:
    """What the fraction means in the versions that the engine may be."""
    found, setting = engine(case, matrix), settings(case, matrix)[0]
    rows = possible(matrix, found, "parameter", setting, "gpu_memory_utilization")
    return [str(match.claim.data.get("meaning", "")) for match, _ in rows]


def _cache_beside_weights(
    case: Case, matrix: Matrix, need: Need, fraction: float
) -> Iterator[Fault]:
    """The cache takes a share of the whole card, whatever the weights leave of it."""
    device, size, _ = smallest(case, matrix)
    if need.gib <= size < need.gib + fraction * size:
        yield Fault(
            f"the cache takes {fraction:g} of the memory, {fraction * size:.1f} GiB, beside "
            f"{need.gib:.1f} of weights; {cards.label(device, matrix)} has {size:.1f}",
            evidence=memory_evidence(case, need, device, size),
            remedies=(Remedy("ask for a smaller share: --cache-max-entry-count 0.2"),),
            subject=device.id,
            severity=Severity.WARNING if _is_guess(case, matrix) else None,
        )
        return
    asked = cache_asked(case, matrix, count(case, "quant_policy") or _FULL)
    if asked is None:
        return
    row, length, kv = asked
    if need.gib <= size and kv > size - need.gib:
        yield Fault(
            f"a session of {length} tokens needs {kv:.0f} GiB of cache; weights leave "
            f"{size - need.gib:.0f} of {cards.label(device, matrix)}",
            evidence=memory_evidence(case, need, device, size),
            remedies=(Remedy("a shorter --session-len, or a cache of fewer bits"),),
            sources=row.source,
            subject=device.id,
            severity=Severity.WARNING,
        )


RULES = (
    weights_do_not_fit,
    no_room_for_kv,
)
