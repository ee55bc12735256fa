"""Models that are larger than the devices of engines which leave the rest to the processor."""

from __future__ import annotations

from collections.abc import Iterator

from doctor.facts import Missing, MissingFact
from doctor.findings import Evidence, Remedy
from doctor.matrix import Matrix
from doctor.rules.engine import Case, Fault, NotApplicable, Rule, Severity, rule
from doctor.rules.memory_need import checkpoint, parameters
from doctor.rules.model_facts import argument, count, environment, model_name
from doctor.rules.placement import margin, placement
from doctor.rules.serving_told import is_told, told
from doctor.rules.software import engine_name
from doctor.rules.split_memory import least_gib, lent_memory

_LAYERS = ("n_gpu_layers", "num_gpu", "cpu_moe", "n_cpu_moe", "override_tensor")


@rule("SRV110", cause="insufficient-memory-weights", severity=Severity.WARNING)
def layers_go_to_processor(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """The model is larger than the devices hold, and the processor is told to compute.

    What: parameters times the bits of the format, at least, and the room of a small cache,
        against the memory of the devices, or the share of it that Metal lends.
    Why: what does not fit is computed by the processor, several times slower; on Apple's
        machines the load fails, or the system swaps.
    How to fix: a smaller model, a format of fewer bits, or a shorter context.
    Silent when: nobody tells of a busy processor (Metal aside), somebody places layers by hand,
        or size and memory are not known.
    Sources: FAQ of Ollama (ollama ps); Metal, recommendedMaxWorkingSetSize.
    """
    if case.workload is None or placement(case, matrix).holds != "shared":
        raise NotApplicable("no engine that leaves layers to the processor")
    is_metal = any(device.vendor == "apple" for device in case.devices)
    words = None if is_metal else told(case, "cpu_at_work")
    if engine_name(case, matrix) != "ollama" and not is_metal:
        raise NotApplicable("how many layers go to devices is the choice of who starts it")
    if not is_metal and any(argument(case, name)[0] is not None for name in _LAYERS):
        raise NotApplicable("layers are placed by hand")
    need, own = least_gib(case, matrix), lent_memory(case, matrix)
    if need > own - margin(matrix, "small-cache-gib"):
        yield Fault(
            f"{model_name(case)} takes at least {need:.1f} GiB beside its cache; the devices "
            f"{'lend' if is_metal else 'have'} {own:.1f}: the rest is computed by the processor",
            evidence=(
                Evidence(f"weights of at least {need:.1f} GiB", argument(case, "model")[1]),
                Evidence(f"{len(case.devices)} devices, {own:.1f} GiB", case.facts.devices.at),
                *((words,) if words else ()),
            ),
            remedies=(Remedy("use a smaller model, or a format of fewer bits"),),
        )


@rule("HST165", cause="host-ram-too-small", severity=Severity.WARNING)
def each_rank_loads_all(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """Every rank reads the whole checkpoint into host memory, as is told, and there is too little.

    What: the size of the weights times the ranks against memory and swap.
    Why: builders and plain launchers start one process a rank, and each keeps the whole model
        until it has cut out its part; the kernel then kills them.
    How to fix: one rank after the other, a loader that maps the files, more memory.
    Silent when: nobody tells of it, or size, ranks or memory are not known.
    Sources: NVIDIA/TensorRT-LLM issue 102; Transformers documentation on big models.
    """
    words = told(case, "whole_per_rank")
    ranks = count(case, "tensor_parallel_size") or count(case, "world_size") or len(case.devices)
    need = checkpoint(case, matrix)
    if need is None or not need.total_gib:
        raise MissingFact("size of the model", Missing.NOT_STATED)
    host = case.facts.host
    have = (host.memory_mib.known("host.memory_mib") + (host.swap_mib.value or 0)) / 1024
    if ranks > 1 and need.total_gib * ranks > have:
        yield Fault(
            f"{ranks} ranks read {need.total_gib:.0f} GiB each; memory and swap are {have:.0f} GiB",
            evidence=(words, Evidence(f"memory {have:.0f} GiB", host.memory_mib.at)),
            remedies=(Remedy("let one rank load after the other, or map the files"),),
        )


@rule("HST166", cause="host-ram-too-small", severity=Severity.WARNING)
def windows_loads_through_memory(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """On Windows Ollama reads a model that is larger than the memory of the host.

    What: parameters times the bits of the format, at least, against host memory and swap.
    Why: on Windows with CUDA files are not mapped, so that the model passes through memory
        even where the card holds all of it.
    How to fix: more memory or a larger page file, or a smaller model.
    Silent when: the system is another, or memory or size are not known.
    Sources: ollama/ollama llm/server.go (no mmap on Windows with CUDA), issue 7711.
    """
    system = case.facts.host.os.value
    if engine_name(case, matrix) != "ollama" or system is None or system.id != "windows":
        raise NotApplicable("files are mapped")
    host = case.facts.host
    have = (host.memory_mib.known("host.memory_mib") + (host.swap_mib.value or 0)) / 1024
    need = least_gib(case, matrix)
    if need > have and case.nvidia_devices:
        yield Fault(
            f"{model_name(case)} takes at least {need:.0f} GiB, which pass through the "
            f"{have:.0f} GiB of the host",
            evidence=(Evidence(f"memory {have:.0f} GiB", host.memory_mib.at),),
            remedies=(Remedy("give the machine more memory or a larger page file"),),
        )


@rule("HST167", cause="host-ram-too-small", severity=Severity.WARNING)
def one_node_of_memory(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """The model must fit into the memory of one processor of two, and does not.

    What: parameters times the bits of the format, at least, against half of the memory, where
        the process is bound to one node, or holds the weights once for each node.
    Why: numactl takes the memory of that node only, and the kernel ends the process when it is
        full; builds of KTransformers with USE_NUMA=1 copy the weights to every node.
    How to fix: no binding of memory (numactl -N without -m, or --interleave=all); a build
        without USE_NUMA, or twice the memory.
    Silent when: neither is told, or size and memory are not known.
    Sources: KTransformers documentation, FAQ on NUMA; numactl(8).
    """
    copies = environment(case).get("USE_NUMA", "0") not in ("", "0")
    if not copies and not is_told(case, "bound_to_node"):
        raise NotApplicable("the memory of all nodes is used, once")
    host = case.facts.host
    have = host.memory_mib.known("host.memory_mib") / 1024
    need = least_gib(case, matrix)
    if need * _NODES > have:
        what = "USE_NUMA=1" if copies else told(case, "bound_to_node").fact
        yield Fault(
            f"{model_name(case)} takes at least {need:.0f} GiB, and one of two nodes has "
            f"{have / _NODES:.0f}",
            evidence=(Evidence(what), Evidence(f"memory {have:.0f} GiB", host.memory_mib.at)),
            remedies=(Remedy("let it use the memory of all nodes, and hold the weights once"),),
        )


_NODES = 2  # boards of one processor have no nodes to choose from


@rule("HST168", cause="host-ram-too-small", severity=Severity.WARNING)
def builder_holds_copies(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """TensorRT-LLM builds an engine, and the host has too little memory for its copies of weights.

    What: the weights in 16 bits, several times over, against memory and swap, where a build by
        the scripts of the examples or trtllm-build is told of.
    Why: the checkpoint, the network that is made of it and the engine are in host memory at the
        same time, in the old scripts partly in 32 bits; the kernel kills the build.
    How to fix: more memory or swap, weights converted by shards, or a build on a larger host.
    Silent when: nobody tells of a build, or size and memory are not known.
    Sources: NVIDIA/TensorRT-LLM issues 102, 236, 577 and 743.
    """
    if engine_name(case, matrix) != "tensorrt-llm":
        raise NotApplicable("no builder of engines")
    words = told(case, "builds_engine", "builds_by_script")
    host, params = case.facts.host, parameters(case, matrix)
    have = (host.memory_mib.known("host.memory_mib") + (host.swap_mib.value or 0)) / 1024
    if params is None:
        raise MissingFact("size of the model", Missing.NOT_STATED)
    by_script = is_told(case, "builds_by_script")
    copies = margin(matrix, "builder-copies") if by_script else margin(matrix, "builder")
    need = params * 1e9 * 2 / (1 << 30) * copies
    if need > have:
        yield Fault(
            f"building an engine of {model_name(case)} takes about {need:.0f} GiB of host memory; "
            f"memory and swap are {have:.0f} GiB",
            evidence=(words, Evidence(f"memory {have:.0f} GiB", host.memory_mib.at)),
            remedies=(Remedy("add memory or swap, or build on a larger host"),),
            sources=("https://github.com/NVIDIA/TensorRT-LLM/issues/102",),
        )


RULES: tuple[Rule, ...] = (
    one_node_of_memory,
    builder_holds_copies,
    layers_go_to_processor,
    each_rank_loads_all,
    windows_loads_through_memory,
)
