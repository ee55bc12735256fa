"""Buffers of a built engine, which its largest batch and length fix."""

from __future__ import annotations

from collections.abc import Iterator

from doctor.facts import Missing, MissingFact
from doctor.findings import Evidence, Remedy
from doctor.matrix import Matrix
from doctor.rules import cards
from doctor.rules.engine import Case, Fault, NotApplicable, Rule, Severity, rule
from doctor.rules.model_facts import argument, count, known_model, model_name
from doctor.rules.serving_memory import smallest
from doctor.rules.software import engine_name


@rule("SRV103", cause="insufficient-memory-kv", severity=Severity.WARNING)
def buffers_exceed_memory(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """A built engine's largest batch at full length is far more than the device can hold.

    What: the build's maximum batch times maximum input and output length times KV bytes
        per token, against the memory that weights leave.
    Why: runtime buffers are sized by these maxima when the engine is loaded.
    How to fix: build with a smaller maximum batch or length.
    Silent when: the engine sizes its pool by what is free, or the model is not known.
    Sources: NVIDIA/TensorRT-LLM issue 401; memory documentation of TensorRT-LLM.
    """
    if case.workload is None or engine_name(case, matrix) != "tensorrt-llm":
        raise NotApplicable("no engine with buffers of a fixed size")
    batch = count(case, "max_batch_size")
    length = (count(case, "max_input_len") or 0) + (count(case, "max_output_len") or 0)
    length = length or count(case, "max_model_len") or 0
    row = known_model(matrix, model_name(case))
    if not batch or not length:
        raise NotApplicable("no maximum batch and length")
    if row is None or row.kv_bytes_per_token is None:
        raise MissingFact("KV bytes per token of the model", Missing.NOT_STATED)
    device, size, _ = smallest(case, matrix)
    ranks = count(case, "tensor_parallel_size") or 1
    kv = batch * length * row.kv_bytes_per_token / ranks / (1 << 30)
    if kv > size:
        yield Fault(
            f"a batch of {batch} with {length} tokens each needs {kv:.0f} GiB of KV cache; "
            f"{cards.label(device, matrix)} has {size:.0f} GiB",
            evidence=(Evidence(f"max_batch_size={batch}", argument(case, "max_batch_size")[1]),),
            remedies=(Remedy("build with a smaller max_batch_size or shorter lengths"),),
            sources=row.source,
            subject=device.id,
        )


RULES: tuple[Rule, ...] = (buffers_exceed_memory,)
