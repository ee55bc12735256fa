"""What somebody tells of a service that runs, with the settings that go with it."""

from __future__ import annotations

from collections.abc import Iterator

from doctor.findings import Evidence, Remedy
from doctor.matrix import Matrix
from doctor.rules import cards
from doctor.rules.engine import Case, Fault, NotApplicable, Rule, Severity, rule
from doctor.rules.model_facts import argument, count, environment
from doctor.rules.serving import default_port

# Arguments and variables that limit how many requests are computed together.
_LIMITS = ("max_num_seqs", "max_concurrent_requests", "max_batch_size", "batch_size", "parallel")
_LIMIT_VARIABLES = ("OLLAMA_NUM_PARALLEL", "LLAMA_ARG_N_PARALLEL", "MAX_CONCURRENT_REQUESTS")
_FEW = 8  # requests at a time that leave a device waiting for its memory
# Switches of a cache of prefixes, and what turns them off.
_CACHES = ("enable_prefix_caching", "enable_block_reuse", "cache_prompt", "prefix_caching")
_NO_CACHES = ("disable_radix_cache", "no_enable_prefix_caching", "no_prefix_caching")
_PORTS_OF_IMAGES = (80, 8080)
_BY_TENSOR = ("row", "tensor")
_KEEPING = ("ollama",)
_OTHER_POOLS = ("llama.cpp", "llama-cpp-python", "ollama", "mlx", "ctranslate2", "faster-whisper")


def told(case: Case, *names: str) -> Evidence:
    """The words that tell the first of these; raises `NotApplicable` where nobody does."""
    words = (case.workload.symptoms.value or {}) if case.workload else {}
    for name in names:
        if name in words:
            return Evidence(words[name], "notes")
    raise NotApplicable(f"nobody tells: {', '.join(names)}")


def is_told(case: Case, *names: str) -> bool:
    """Tell whether somebody tells one of these."""
    words = (case.workload.symptoms.value or {}) if case.workload else {}
    return any(name in words for name in names)


@rule("SRV302", cause="port-in-use", severity=Severity.WARNING)
def another_server_here(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """Another server runs beside this one, and nothing tells of a port of its own.

    What: what is told of a second server, a service or a suspended process on this host or
        its network.
    Why: each binds the default port unless told otherwise, and with the host's network
        containers share its ports; a process that was suspended keeps its port.
    How to fix: another port for one of them, or end the other one.
    Silent when: a port of its own is told or asked for.
    Sources: default ports in the engines' documentation.
    """
    words = told(case, "second_server")
    port, usual = count(case, "port"), default_port(case, matrix)
    if port and usual and port not in (usual, *_PORTS_OF_IMAGES):
        return
    yield Fault(
        f"another server runs here: {f'port {port}' if port else 'the default port'} may be taken",
        evidence=(words,),
        remedies=(
            Remedy(
                "find the owner of the port, and choose another one or stop it",
                (f"ss -ltnp 'sport = :{port}'" if port else "ss -ltnp",),
            ),
        ),
    )


@rule("SRV411", cause="memory-fragmentation", severity=Severity.WARNING)
def reserve_is_told_unused(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """Much memory is told to be reserved or free, and a smaller block could not be had.

    What: what is told of reserved memory that holds nothing, or of free memory beside a
        failed allocation.
    Why: the allocator keeps blocks of other sizes, the more so where shapes vary.
    How to fix: let the allocator grow its segments; fewer different shapes; restart.
    Silent when: nobody tells of it; the engine keeps no such pool; segments already grow.
    Sources: PyTorch CUDA memory management documentation.
    """
    words = told(case, "unused_reserve", "free_yet_refused")
    engine = case.workload.engine if case.workload else ""
    setting = environment(case).get("PYTORCH_CUDA_ALLOC_CONF", "")
    if engine in _OTHER_POOLS or "expandable_segments:true" in setting.lower():
        return
    yield Fault(
        "memory is there, and no block of the size that is asked for",
        evidence=(words,),
        remedies=(
            Remedy(
                "let segments grow", ("export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",)
            ),
        ),
        sources=("https://docs.pytorch.org/docs/stable/notes/cuda.html",),
    )


@rule("SRV412", cause="memory-leak", severity=Severity.WARNING)
def memory_is_told_held(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """Memory grows, or stays in use although nothing runs, as is told.

    What: what is told of growing memory, or of cache blocks in use without requests.
    Why: requests that ended are not released: aborted clients, cached media, adapters.
    How to fix: a newer release; until then a restart with drained traffic.
    Silent when: nobody tells of it; the engine keeps models loaded by design.
    Sources: issue threads of the engines on aborted requests.
    """
    words = told(case, "memory_grows", "memory_held")
    keeps = case.workload is not None and case.workload.engine in _KEEPING
    if keeps and not is_told(case, "memory_grows"):
        return
    yield Fault(
        "memory of requests that ended is not released",
        evidence=(words,),
        remedies=(Remedy("upgrade the engine; restart it with traffic drained until then"),),
    )


@rule("SRV413", cause="underutilized", severity=Severity.WARNING)
def device_is_told_idle(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """The device is told to be mostly idle, with few requests at a time or a busy processor.

    What: what is told of the device's load, with the limit of requests at a time, waiting
        requests, and the load of the processor.
    Why: a step with few sequences leaves the device waiting for its memory; a processor
        that prepares images or text alone cannot feed it.
    How to fix: raise the limit, send more at once, give the process more cores.
    Silent when: nothing but the device's load is told.
    Sources: vLLM documentation on optimization; field guides on utilization.
    """
    words = told(case, "device_idle")
    limit = _small_limit(case)
    if limit is None and not is_told(case, "processor_busy", "requests_wait"):
        return
    why = f"{limit[0]} is {limit[1]}" if limit else "requests wait, or the processor is the limit"
    yield Fault(
        f"the device waits for work: {why}",
        evidence=(words, *((Evidence(f"{limit[0]}={limit[1]}", limit[2]),) if limit else ())),
        remedies=(Remedy("raise the limit of requests at a time, or give the process more cores"),),
        sources=("https://docs.vllm.ai/en/latest/configuration/optimization.html",),
    )


def _small_limit(case: Case) -> tuple[str, int, str] | None:
    """The limit of requests at a time, if it is small; where it was read."""
    for name in _LIMITS:
        limit = count(case, name)
        if limit is not None and limit <= _FEW:
            return name, limit, argument(case, name)[1]
    env = environment(case)
    for name in _LIMIT_VARIABLES:
        value = env.get(name, "")
        if value.isdecimal() and 0 < int(value) <= _FEW:
            return name, int(value), case.scope.env.at
    return None


@rule("SRV414", cause="interconnect-bound", severity=Severity.WARNING)
def split_is_told_slow(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """A model split over devices without NVLink is told to be no faster than on fewer.

    What: what is told of the speed, with a split by tensors over several devices and how
        they are joined.
    Why: every layer exchanges its activations; over PCIe that costs more than it saves.
    How to fix: pipeline parallelism or a split by layers, fewer ranks, or one replica per
        device.
    Silent when: the devices have NVLink, or the split is by layers.
    Sources: vLLM documentation on parallelism; llama.cpp on split modes.
    """
    words = told(case, "slower_split")
    ranks = count(case, "tensor_parallel_size") or 1
    is_split = ranks > 1 or argument(case, "split_mode")[0] in _BY_TENSOR
    if not is_split or (len(case.devices) < 2 and not _are_unnamed(case)):
        raise NotApplicable("the model is not split by tensors")
    unnamed = Evidence("which devices, nobody says") if _are_unnamed(case) else None
    how = unnamed or without_nvlink(case, matrix)
    if how is not None:
        yield Fault(
            f"the split over {max(len(case.devices), ranks)} devices is told to be slow",
            evidence=(words, how),
            remedies=(Remedy("compare with a split by layers (pipeline), or with replicas"),),
        )


def _are_unnamed(case: Case) -> bool:
    return not any(device.name.value for device in case.devices)


def without_nvlink(case: Case, matrix: Matrix) -> Evidence | None:
    """What tells that the devices are joined by PCIe; None where they may have NVLink."""
    mine = {device.id for device in case.devices}
    links = [k for k in case.facts.topology.value or () if {k.a, k.b} <= mine]
    if links:
        kinds = ", ".join(dict.fromkeys(link.link for link in links))
        is_slow = not any(link.link.startswith("NV") for link in links)
        return Evidence(f"links: {kinds}", case.facts.topology.at) if is_slow else None
    known = {cards.shared(device, matrix, "nvlink") for device in case.nvidia_devices}
    return cards.evidence(case.devices[0], matrix) if known == {"none"} else None


@rule("SRV415", cause="cold-start", severity=Severity.WARNING)
def slow_at_first_is_told(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """The first answers after a start, a pause or a new shape are told to be slow.

    What: what is told of the first requests, or of how long a start takes.
    Why: weights are loaded, kernels compiled, graphs captured and caches filled at first use.
    How to fix: warm-up requests before traffic; keep the compile caches and the model where
        they outlive a restart; a longer time before an idle model is unloaded.
    Silent when: nobody tells of it, or both times were measured (another rule).
    Sources: vLLM documentation on compilation caches; Ollama's FAQ on keeping a model loaded.
    """
    words = told(case, "slow_at_first")
    first, usual = _measured(case, "first_ttft_s"), _measured(case, "ttft_s")
    if first is not None and usual is not None:
        return
    keep = environment(case).get("OLLAMA_KEEP_ALIVE", "")
    hint = " (OLLAMA_KEEP_ALIVE)" if keep else ""
    yield Fault(
        "the first answers pay for loading, compilation or capture",
        evidence=(words, *((Evidence(f"OLLAMA_KEEP_ALIVE={keep}"),) if keep else ())),
        remedies=(Remedy(f"warm up before traffic, keep caches and model loaded{hint}"),),
        sources=("https://docs.vllm.ai/en/latest/design/torch_compile.html",),
    )


@rule("SRV416", cause="kv-not-reused", severity=Severity.WARNING)
def prompts_are_told_computed_again(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """Prompts that begin alike are told to be computed again each time.

    What: what is told of later turns or of cache hits, with the switch of the prefix cache.
    Why: without the cache each turn computes the whole conversation; a prompt that changes at
        its beginning, or another replica or slot, defeats it.
    How to fix: turn prefix caching on, keep what changes at the end, and one replica or slot
        per conversation.
    Silent when: nobody tells of it, or the hit rate was measured (another rule).
    Sources: documentation of vLLM, SGLang, TensorRT-LLM and llama.cpp on prefix caching.
    """
    words = told(case, "computed_again")
    if _measured(case, "prefix_cache_hit_rate") is not None:
        return
    off = [name for name in _CACHES if _value(case, name) in ("false", "0")]
    off += [name for name in _NO_CACHES if _value(case, name) in ("true", "1")]
    yield Fault(
        f"{off[0]} turns the prefix cache off" if off else "the prefix cache is off or defeated",
        evidence=(words, *(Evidence(f"{n}={_value(case, n)}", argument(case, n)[1]) for n in off)),
        remedies=(
            Remedy("turn prefix caching on, and keep what changes at the end of the prompt"),
        ),
        sources=("https://docs.vllm.ai/en/latest/features/automatic_prefix_caching.html",),
    )


def _measured(case: Case, name: str) -> float | None:
    figures = (case.workload.measured.value or {}) if case.workload else {}
    return figures.get(name)


def _value(case: Case, name: str) -> str:
    return str(argument(case, name)[0]).lower()


RULES: tuple[Rule, ...] = (
    another_server_here,
    reserve_is_told_unused,
    memory_is_told_held,
    device_is_told_idle,
    split_is_told_slow,
    slow_at_first_is_told,
    prompts_are_told_computed_again,
)
