"""Rules about splitting a model over devices."""

from __future__ import annotations

import re
from collections.abc import Iterator
from math import prod

from doctor.facts import Device, Missing, MissingFact
from doctor.findings import Evidence, Remedy
from doctor.matrix import Matrix
from doctor.rules import cards
from doctor.rules.engine import Case, Fault, NotApplicable, Severity, rule
from doctor.rules.model_blocks import cut_blocks
from doctor.rules.model_facts import ModelFacts, argument, count, model_facts, model_name
from doctor.rules.placement import placement
from doctor.rules.serving_told import is_told, told
from doctor.rules.settings import applicable, settings
from doctor.rules.software import engine, engine_name

_SEVERAL_HOSTS = ("nnodes", "node_rank", "master_addr", "dist_init_addr", "data_parallel_address")


def _tensor_parallel(case: Case, matrix: Matrix) -> int:
    if not placement(case, matrix).splits_heads:
        raise NotApplicable("this engine does not split heads")
    size = count(case, "tensor_parallel_size")
    if size is None or size == 1:
        raise NotApplicable("no tensor parallelism")
    return size


@rule("MDL401", cause="parallelism-invalid", severity=Severity.ERROR)
def heads_not_divisible(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """The tensor-parallel size does not divide the model's attention or KV heads.

    What: the tensor-parallel size against the number of attention heads, and of KV heads
        (fewer KV heads than ranks are copied, which needs the ranks to be a multiple); for
        weights with block-wise scales, the widths of experts and dense parts against whole
        blocks. A warning where only the name says that scales are by blocks.
    Why: each rank takes whole heads and whole blocks; the engine refuses at start.
    How to fix: one of the sizes that the finding names.
    Silent when: the model's configuration is not known, or the engine splits otherwise.
    Sources: vllm-project/vllm issues 1705 and 5951; vLLM verify_with_parallel_config.
    """
    size = _tensor_parallel(case, matrix)
    blocks = cut_blocks(case, matrix)
    cut = blocks.cut(size) if blocks is not None else []
    try:
        model = model_facts(case, matrix)
    except MissingFact:
        if not cut:
            raise
        model = ModelFacts(model_name(case))
    wrong = _indivisible(model, size)
    if model.heads is None and not cut and not wrong:
        raise MissingFact("num_attention_heads", Missing.NOT_STATED)
    if not wrong and not cut:
        return
    fitting = [
        str(n)
        for n in range(1, 17)
        if not _indivisible(model, n) and not (blocks is not None and blocks.cut(n))
    ]
    is_doubt = not wrong and blocks is not None and not blocks.is_sure
    yield Fault(
        f"tensor_parallel_size {size} does not fit {model.name}: {' and '.join(wrong + cut)}",
        evidence=(
            Evidence(f"tensor_parallel_size={size}", argument(case, "model")[1]),
            Evidence(f"{model.heads} attention heads, {model.kv_heads} KV heads", model.at),
        ),
        remedies=(
            Remedy(f"use tensor_parallel_size {', '.join(fitting)}"),
            *((Remedy("or split by experts: --enable-expert-parallel"),) if cut else ()),
        ),
        severity=Severity.WARNING if is_doubt else None,
    )


def _indivisible(model: ModelFacts, size: int) -> list[str]:
    problems = []
    if model.heads is not None and model.heads % size:
        problems.append(f"{model.heads} attention heads are not divisible by {size}")
    if model.kv_heads and model.kv_heads % size and size % model.kv_heads:
        problems.append(f"{model.kv_heads} KV heads can be neither split nor copied over {size}")
    return problems


@rule("MDL402", cause="parallelism-invalid", severity=Severity.ERROR)
def more_ranks_than_devices(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """Tensor times pipeline parallel size is more than the devices of the host.

    What: the product of both sizes, and of the copies of the model where each has devices of
        its own, against the devices that were found.
    Why: each rank needs a device of its own; the engine waits for ranks that never come,
        or refuses.
    How to fix: smaller sizes, or more hosts with the engine's multi-node options.
    Silent when: several hosts are used, the number of devices is not known, or the sizes
        are not given. A warning where a person stated the devices, who may mean one host of
        several.
    Sources: documentation of the engines on distributed serving.
    """
    asked = _ranks_asked(case, matrix)
    wanted = prod(asked.values())
    if wanted == 1 or any(argument(case, name)[0] for name in _SEVERAL_HOSTS):
        raise NotApplicable("one rank, or several hosts")
    is_ray = str(argument(case, "distributed_executor_backend")[0]) == "ray"
    if is_told(case, "several_hosts") and not is_ray:
        yield _launcher_not_named(case, matrix, wanted)
        return
    if is_told(case, "several_hosts") or (is_ray and case.facts.devices.partial):
        raise NotApplicable("several hosts, or ray may bring devices of others")
    devices = case.facts.devices.known("devices")
    mine = [d for d in case.devices if d.vendor in ("nvidia", "amd", "ascend")]
    if not mine or case.facts.devices.partial:
        raise MissingFact("number of devices", Missing.NOT_STATED)
    is_read = all(d.pci.is_known for d in mine)
    if len(mine) == 1 and not is_read and _is_one_a_host(mine[0], matrix):
        raise NotApplicable("a machine with one device, of which several are joined")
    if wanted > len(mine):
        yield Fault(
            f"{wanted} ranks are asked for ({' x '.join(f'{k} {v}' for k, v in asked.items())}), "
            f"and {len(mine)} devices are here",
            evidence=(Evidence(f"{len(devices)} devices", case.facts.devices.at),),
            remedies=(Remedy(f"ask for at most {len(mine)} ranks"),),
            severity=None if is_read and not is_ray else Severity.WARNING,
        )


def _launcher_not_named(case: Case, matrix: Matrix, wanted: int) -> Fault:
    """More ranks than this host's devices, of a release that must be told who brings the others."""
    found = engine(case, matrix)
    rows = applicable(matrix, found, "several-hosts", settings(case, matrix)[0])
    given = argument(case, "distributed_executor_backend")[0] or argument(case, "worker_use_ray")[0]
    here = len(case.devices)
    if not rows or given or not here or wanted <= here:
        raise NotApplicable("several hosts")
    claim = rows[0].claim
    return Fault(
        f"{found.label} is asked for {wanted} ranks with {here} devices on this host: {claim.text}",
        evidence=(found.evidence, Evidence(f"{here} devices", case.facts.devices.at)),
        remedies=(Remedy(claim.remedy),),
        sources=claim.source,
        severity=Severity.WARNING,
    )


@rule("MDL406", cause="parallelism-invalid", severity=Severity.WARNING)
def vocabulary_not_divisible(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """The tensor-parallel size does not divide the vocabulary, of whose size somebody tells.

    What: the number of entries that is told, or stated as vocab_size, against the ranks.
    Why: embedding and output layer are cut by rows of the vocabulary; engines and releases
        that do not pad them refuse a size that does not divide it.
    How to fix: another number of ranks, a padded vocabulary, or a newer release.
    Silent when: nobody tells of the vocabulary, or the ranks divide it.
    Sources: vllm-project/vllm issues 250 and 440; text-generation-inference issue 507.
    """
    size = _tensor_parallel(case, matrix)
    words = told(case, "vocabulary")
    numbers = [int(text) for text in re.findall(r"\d{4,6}", words.fact)]
    odd = [number for number in numbers if number % size]
    if odd:
        yield Fault(
            f"a vocabulary of {odd[0]} is not divisible by {size} ranks",
            evidence=(words,),
            remedies=(Remedy("another number of ranks, or a release that pads the vocabulary"),),
        )


def _ranks_asked(case: Case, matrix: Matrix) -> dict[str, int]:
    """Sizes by what is shared, those alone that are more than one (or the tensors')."""
    row = next((r for r in matrix.memory.placements if r.engine == engine_name(case, matrix)), None)
    copies = row.copies if row is not None else ()
    names = ("tensor_parallel_size", "pipeline_parallel_size", *copies)
    sizes = {name.partition("_")[0]: count(case, name) or 1 for name in names}
    local = count(case, "data_parallel_size_local")
    if local and "data" in sizes:
        sizes["data"] = local
    return {k: v for k, v in sizes.items() if k in ("tensor", "pipeline") or v > 1}


def _is_one_a_host(device: Device, matrix: Matrix) -> bool:
    """A product that shares the host's memory is the only one of its host."""
    rows = cards.products(device, matrix)
    return bool(rows) and all(row.unified_memory for row in rows)


@rule("MDL403", cause="parallelism-invalid", severity=Severity.ERROR)
def parallelism_refused(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """The engine does not do tensor parallelism with this quantization or on these devices.

    What: combinations that the matrix records as refused (a method that cannot be split,
        MIG instances), and sizes that must divide the tensor-parallel one.
    Why: the kernels or the communication between ranks do not exist for it.
    How to fix: one rank, or what the finding names.
    Silent when: nothing is known about the combination.
    Sources: documentation of the engines (rows in the matrix).
    """
    size = _tensor_parallel(case, matrix)
    found = engine(case, matrix)
    method = str(argument(case, "quantization")[0] or "").lower()
    for match in applicable(matrix, found, "parallelism", settings(case, matrix)[0]):
        claim = match.claim
        divisor = count(case, str(claim.data.get("divides", "")))
        if divisor is not None and size % divisor:
            name = str(claim.data["divides"])
            yield Fault(
                f"{found.label}: {claim.text} ({size} by {divisor})",
                evidence=(Evidence(f"tensor_parallel_size={size}, {name}={divisor}"),),
                remedies=(Remedy(f"make tensor_parallel_size a multiple of {name}"),),
                sources=claim.source,
                extrapolated=match.extrapolated,
            )
            return
        limit = claim.data.get("tensor_parallel_size")
        if claim.data.get("quantization") == method and limit and size > int(limit):
            yield Fault(
                f"{found.label}: {claim.text or claim.key}",
                evidence=(Evidence(f"tensor_parallel_size={size}, quantization={method}"),),
                remedies=(Remedy(claim.remedy or f"use tensor_parallel_size {limit}"),),
                sources=claim.source,
                extrapolated=match.extrapolated,
            )


@rule("MDL407", cause="parallelism-invalid", severity=Severity.WARNING)
def key_heads_not_copied(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """More ranks than KV heads, in an engine that does not copy them.

    What: the tensor-parallel size against the number of KV heads.
    Why: text-generation-inference gives each rank its own KV heads; with fewer heads than ranks
        a rank would have none, and the load fails in the weights or in a shape.
    How to fix: at most as many ranks as KV heads, or an engine that copies them.
    Silent when: the engine copies them, the model has one head for all by design (Falcon,
        StarCoder), or heads are not known.
    Sources: huggingface/text-generation-inference issue 1696.
    """
    size = _tensor_parallel(case, matrix)
    if engine_name(case, matrix) != "tgi":
        raise NotApplicable("the engine copies KV heads")
    model = model_facts(case, matrix)
    shares = any(word in model.architecture for word in _ONE_FOR_ALL)
    if model.kv_heads and model.kv_heads % size and not shares:
        yield Fault(
            f"{model.name} has {model.kv_heads} KV heads, which {size} ranks cannot share",
            evidence=(Evidence(f"tensor_parallel_size={size}", argument(case, "model")[1]),),
            remedies=(Remedy(f"use at most {model.kv_heads} ranks"),),
            sources=("https://github.com/huggingface/text-generation-inference/issues/1696",),
        )


_ONE_FOR_ALL = ("Falcon", "RW", "GPTBigCode")


RULES = (
    key_heads_not_copied,
    heads_not_divisible,
    more_ranks_than_devices,
    parallelism_refused,
    vocabulary_not_divisible,
)
