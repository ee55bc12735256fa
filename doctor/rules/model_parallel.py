"""Rules about splitting a model over devices, and about its files."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from doctor.facts import Missing, MissingFact
from doctor.findings import Evidence, Remedy
from doctor.matrix import Matrix
from doctor.rules.engine import Case, Fault, NotApplicable, Severity, rule
from doctor.rules.model_facts import (
    ModelFacts,
    argument,
    count,
    environment,
    model_facts,
    model_name,
)
from doctor.rules.settings import applicable, settings
from doctor.rules.software import engine, engine_name

# Engines that split attention heads over ranks; others split layers or tensors unevenly.
_SPLIT_HEADS = ("vllm", "vllm-ascend", "sglang", "tgi", "tensorrt-llm", "lmdeploy", "mindie")
_SEVERAL_HOSTS = ("nnodes", "node_rank", "master_addr", "dist_init_addr")


def _tensor_parallel(case: Case, matrix: Matrix) -> int:
    if engine_name(case, matrix) not in _SPLIT_HEADS:
        raise NotApplicable("this engine does not split heads")
    size = count(case, "tensor_parallel_size")
    if size is None or size == 1:
        raise NotApplicable("no tensor parallelism")
    return size


@rule("MDL401", cause="parallelism-invalid", severity=Severity.ERROR)
def heads_not_divisible(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """The tensor-parallel size does not divide the model's attention or KV heads.

    What: the tensor-parallel size against the number of attention heads, and of KV heads
        (fewer KV heads than ranks are copied, which needs the ranks to be a multiple).
    Why: each rank takes whole heads; the engine refuses at start.
    How to fix: one of the sizes that the finding names.
    Silent when: the model's configuration is not known, or the engine splits otherwise.
    Sources: vllm-project/vllm issues 1705 and 5951; vLLM verify_with_parallel_config.
    """
    size = _tensor_parallel(case, matrix)
    model = model_facts(case, matrix)
    problems = _indivisible(model, size)
    if model.heads is None and not problems:
        raise MissingFact("num_attention_heads", Missing.NOT_STATED)
    if problems:
        fitting = [str(n) for n in range(1, 17) if not _indivisible(model, n)]
        yield Fault(
            f"tensor_parallel_size {size} does not fit {model.name}: {' and '.join(problems)}",
            evidence=(
                Evidence(f"tensor_parallel_size={size}", argument(case, "model")[1]),
                Evidence(f"{model.heads} attention heads, {model.kv_heads} KV heads", model.at),
            ),
            remedies=(Remedy(f"use tensor_parallel_size {', '.join(fitting)}"),),
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

    What: the product of both sizes against the devices that were found.
    Why: each rank needs a device of its own; the engine waits for ranks that never come,
        or refuses.
    How to fix: smaller sizes, or more hosts with the engine's multi-node options.
    Silent when: devices were stated by a person and not read, several hosts are used, or
        the sizes are not given.
    Sources: documentation of the engines on distributed serving.
    """
    sizes = [count(case, name) or 1 for name in ("tensor_parallel_size", "pipeline_parallel_size")]
    wanted = sizes[0] * sizes[1]
    if wanted == 1 or any(argument(case, name)[0] for name in _SEVERAL_HOSTS):
        raise NotApplicable("one rank, or several hosts")
    if str(argument(case, "distributed_executor_backend")[0]) == "ray":
        raise NotApplicable("ray may bring devices of other hosts")
    devices = case.facts.devices.known("devices")
    mine = [d for d in case.devices if d.vendor in ("nvidia", "amd", "ascend")]
    if not mine or case.facts.devices.partial or not all(d.pci.is_known for d in mine):
        raise MissingFact("number of devices", Missing.NOT_STATED)
    if wanted > len(mine):
        yield Fault(
            f"{wanted} ranks are asked for (tensor {sizes[0]} x pipeline {sizes[1]}), and "
            f"{len(mine)} devices are here",
            evidence=(Evidence(f"{len(devices)} devices", case.facts.devices.at),),
            remedies=(Remedy(f"ask for at most {len(mine)} ranks"),),
        )


@rule("MDL403", cause="parallelism-invalid", severity=Severity.ERROR)
def parallelism_refused(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """The engine does not do tensor parallelism with this quantization or on these devices.

    What: combinations that the matrix records as refused (a method that cannot be split,
        MIG instances).
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
        limit = claim.data.get("tensor_parallel_size")
        if claim.data.get("quantization") == method and limit and size > int(limit):
            yield Fault(
                f"{found.label}: {claim.text or claim.key}",
                evidence=(Evidence(f"tensor_parallel_size={size}, quantization={method}"),),
                remedies=(Remedy(claim.remedy or f"use tensor_parallel_size {limit}"),),
                sources=claim.source,
                extrapolated=match.extrapolated,
            )


@rule("MDL501", cause="model-incomplete", severity=Severity.ERROR)
def model_files_incomplete(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """Files of the model are missing, are Git LFS pointers, or cannot be read.

    What: the shards that the index names against the files that are there, their first
        bytes and sizes, as they were read with the model's configuration.
    Why: an interrupted download leaves shards out; a clone without Git LFS leaves text
        files of a hundred bytes in place of weights.
    How to fix: download again; the hub client goes on where it stopped.
    Silent when: the files were not looked at.
    Sources: safetensors format; Git LFS pointer specification.
    """
    if case.workload is None:
        raise NotApplicable("no workload")
    config = case.workload.model.known("model files")
    kinds = {
        "missing_files": "are missing",
        "lfs_pointers": "are Git LFS pointers",
        "unreadable_files": "cannot be read",
    }
    if not any(key in config for key in kinds):
        raise MissingFact("model files", Missing.NOT_STATED)
    for key, what in kinds.items():
        names = [str(name) for name in config.get(key) or ()]
        if names:
            yield Fault(
                f"{len(names)} files of {model_name(case) or 'the model'} {what}: "
                f"{', '.join(names[:3])}{' ...' if len(names) > 3 else ''}",
                evidence=(Evidence(f"{key}: {len(names)}", case.workload.model.at),),
                remedies=(
                    Remedy(
                        "download the model again",
                        (f"hf download {shlex.quote(model_name(case) or 'REPOSITORY')}",),
                        role="model",
                    ),
                ),
            )


@rule("MDL502", cause="model-access", severity=Severity.ERROR)
def model_not_reachable(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """The model must be fetched, and the workload may not or cannot fetch it.

    What: whether the model is on disk, whether it is gated, whether a token is in the
        environment, and whether the hub is switched off.
    Why: a gated repository answers 401 or 403 without a token; with HF_HUB_OFFLINE
        nothing is fetched at all.
    How to fix: accept the terms on the model's page and export HF_TOKEN; or fetch the model
        beforehand and name the folder.
    Silent when: the model is a folder, or it is not known whether it is gated or there.
    Sources: Hugging Face Hub documentation on gated models and environment variables.
    """
    if case.workload is None or not model_name(case):
        raise NotApplicable("no model is named")
    if model_name(case).startswith(("/", "./", "~")):
        raise NotApplicable("the model is a folder")
    config = case.workload.model.value or {}
    if "cached" not in config and "gated" not in config:
        raise MissingFact("whether the model is on disk or gated", Missing.NOT_STATED)
    env = environment(case)
    cached = bool(config.get("cached"))
    token = any(env.get(name) for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"))
    offline = env.get("HF_HUB_OFFLINE", "").lower() in ("1", "true", "yes", "on")
    if not cached and offline:
        yield _no_access(case, "HF_HUB_OFFLINE is set and the model is not on disk")
    elif not cached and config.get("gated") and case.scope.env.is_known and not token:
        yield _no_access(case, "the model is gated and no HF_TOKEN is set")


def _no_access(case: Case, why: str) -> Fault:
    return Fault(
        f"{model_name(case)} cannot be loaded: {why}",
        evidence=(Evidence(why, case.scope.env.at),),
        remedies=(
            Remedy(
                "fetch it beforehand",
                (f"hf download {shlex.quote(model_name(case))}",),
                role="model",
            ),
        ),
    )


@rule("MDL601", cause="quantization-quality", severity=Severity.INFO)
def quality_lost_to_quantization(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """The model or its KV cache is quantized to few bits; answers may be worse.

    What: a measured perplexity against the one of the model at 16 bit, where both are
        known; else quantization of weights below 4 bit.
    Why: below 4 bit the loss is no longer small; KV-cache quantization is felt sooner
        than that of weights.
    How to fix: start quality-sensitive work at 8 bit; calibrate with text like yours.
    Silent when: neither was measured nor is the format that small.
    Sources: llama.cpp quantize documentation (perplexity per type).
    """
    measured = case.workload.measured.value or {} if case.workload else {}
    here, base = measured.get("perplexity"), measured.get("perplexity_16bit")
    found = engine(case, matrix)
    if here and base:
        claims = applicable(matrix, found, "parameter", settings(case, matrix)[0], "perplexity")
        limit = float(claims[0].claim.value) if claims else 1.0
        loss = here / base - 1
        if loss > limit:
            yield Fault(
                f"perplexity is {loss:.0%} above that of 16 bit",
                evidence=(Evidence(f"perplexity {here}, 16 bit {base}"),),
                remedies=(Remedy("use a quantization of more bits"),),
                severity=Severity.WARNING,
            )
        return
    name = f"{argument(case, 'quantization')[0] or ''} {model_name(case)}".lower()
    low = [word for word in _LOW_BITS if word in name]
    if not name.strip():
        raise NotApplicable("no model is named")
    if low:
        yield Fault(
            f"{low[0]} keeps fewer than 4 bits a weight: expect worse answers",
            evidence=(Evidence(name.strip()),),
            remedies=(Remedy("use a 4-bit or 8-bit quantization if it fits"),),
        )


_LOW_BITS = ("q2_k", "q3_k", "iq1_", "iq2_", "iq3_", "2bit", "3bit", "int2", "int3", "2-bit")

RULES = (
    heads_not_divisible,
    more_ranks_than_devices,
    parallelism_refused,
    model_files_incomplete,
    model_not_reachable,
    quality_lost_to_quantization,
)
