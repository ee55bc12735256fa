"""Room on the host: memory, shared memory, disk, and the limits of a process."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from math import ceil
from typing import Any

from doctor.facts import Limits, Missing, MissingFact, Reading
from doctor.findings import Evidence, Remedy
from doctor.matrix import Matrix
from doctor.rules.decide import each
from doctor.rules.engine import Case, Fault, NotApplicable, Rule, Severity, rule
from doctor.rules.framework import computes_on_cpu
from doctor.rules.memory_need import checkpoint
from doctor.rules.model_facts import environment
from doctor.rules.settings import Setting, covering, holds, settings
from doctor.rules.software import Software, engine

_MIB_PER_GIB = 1024
_PARALLEL = ("tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size")
_INSIDE = ("container", "image")


def arguments(case: Case) -> dict[str, Any]:
    """The engine's arguments as far as they are known."""
    work = case.workload
    return (work.args.value or {}) if work is not None else {}


def processes(case: Case) -> int | None:
    """Number of GPU worker processes that the arguments ask for; None if they do not say."""
    sizes = [_number(arguments(case).get(name)) for name in _PARALLEL]
    known = [size for size in sizes if size is not None]
    total = 1
    for size in known:
        total *= size
    return total if known else None


def _number(value: object) -> int | None:
    return int(value) if re.fullmatch(r"\d{1,18}", str(value).strip()) else None  # type: ignore[call-overload]


@rule("HST161", cause="host-ram-too-small", severity=Severity.ERROR)
def memory_too_small(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """The host has less memory than the engine needs to load or pin.

    What: what the engine asks for, as it said itself or as its arguments say (swap space,
        CPU offload, a KV cache in host memory), against memory and swap.
    Why: weights pass through host memory, and pinned buffers cannot be swapped out; the
        kernel then kills the process without a word in its own log.
    How to fix: less offload or swap space in the arguments, a loader that maps the files,
        more memory or swap.
    Silent when: nothing tells what is needed.
    Sources: engine documentation of --swap-space and --cpu-offload-gb; kernel OOM killer.
    """
    checks = (_stated_need, _pinned_need, _cache_need)
    yield from each(partial(check, case) for check in checks)


def _stated_need(case: Case) -> Iterator[Fault]:
    host = case.facts.host
    needed = host.memory_needed_mib
    if not needed.is_known and (case.workload is None or not arguments(case)):
        raise NotApplicable("nothing tells how much host memory is needed")
    wanted = needed.known("host.memory_needed_mib")
    total = host.memory_mib if host.memory_mib.is_known else host.memory_available_mib
    swap = host.swap_mib.value or 0
    have = total.known("host.memory_mib") + swap
    free = host.memory_available_mib.value
    if wanted > have:
        yield _too_little(case, wanted, have, needed.at)
    elif free is not None and wanted > free + swap:
        # It would fit if what holds the rest were stopped.
        yield replace(_too_little(case, wanted, free + swap, needed.at), severity=Severity.WARNING)


def _pinned_need(case: Case) -> Iterator[Fault]:
    """Swap space and offload are given per GPU, in GiB."""
    given = [arguments(case).get(name) for name in ("swap_space", "cpu_offload_gb")]
    sizes = [str(g) for g in given if re.fullmatch(r"\d{1,5}(\.\d{1,3})?", str(g))]
    gib = sum(map(float, sizes))
    if not gib:
        raise NotApplicable("no swap space or offload is asked for")
    wanted = ceil(gib * _MIB_PER_GIB) * (processes(case) or 1)
    have = case.facts.host.memory_mib.known("host.memory_mib")
    if wanted > have:
        yield _too_little(case, wanted, have, "engine arguments")


def _cache_need(case: Case) -> Iterator[Fault]:
    """A KV cache in host memory: that of a CPU run, or a second one behind the devices'."""
    spaces = [environment(case).get(name, "") for name in _CACHES]
    gib = next((float(text) for text in spaces if _GIB.fullmatch(text)), 0.0)
    each_rank = str(arguments(case).get("hicache_size", ""))
    if _GIB.fullmatch(each_rank):
        gib = float(each_rank) * (processes(case) or 1)
    if not gib:
        raise NotApplicable("no cache in host memory is asked for")
    have = case.facts.host.memory_mib.known("host.memory_mib")
    wanted = ceil(gib * _MIB_PER_GIB)
    if wanted > have:
        yield _too_little(case, wanted, have, "KV cache in host memory")


# GiB of KV cache in host memory. Sources: vLLM documentation of the CPU back end; SGLang
# documentation of the hierarchical cache, --hicache-size for each rank.
_CACHES = ("VLLM_CPU_KVCACHE_SPACE",)
_GIB = re.compile(r"\d{1,5}(?:\.\d{1,3})?")


def _too_little(case: Case, wanted: int, have: int, at: str) -> Fault:
    host = case.facts.host
    return Fault(
        message=f"{wanted / _MIB_PER_GIB:.1f} GiB of host memory are needed, "
        f"and memory and swap are {have / _MIB_PER_GIB:.1f} GiB",
        evidence=(
            Evidence(f"needed: {wanted} MiB", at),
            Evidence(f"memory and swap: {have} MiB", host.memory_mib.at),
        ),
        remedies=(
            Remedy("ask for less swap space or CPU offload in the engine's arguments"),
            Remedy(
                "or add swap",
                (
                    "sudo fallocate -l 32G /swapfile && sudo chmod 600 /swapfile",
                    "sudo mkswap /swapfile && sudo swapon /swapfile",
                ),
                risk="slow while it is used; pinned memory cannot go there",
            ),
        ),
    )


@rule("HST171", cause="shm-too-small", severity=Severity.ERROR)
def shared_memory_too_small(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """Shared memory is too small for an engine that runs in several processes.

    What: the size of /dev/shm in the scope against what several GPU workers need.
    Why: workers and NCCL exchange data through shared memory; a container gets 64 MB
        unless it asks for more, and work ends in a bus error or an NCCL error.
    How to fix: start the container with the host's IPC or a larger --shm-size.
    Silent when: one process serves one GPU, or the size is not known.
    Sources: Docker run reference, --shm-size; NCCL user guide, troubleshooting; vLLM
        documentation, deployment with Docker.
    """
    count = processes(case)
    inside = case.scope.kind in _INSIDE
    size = case.scope.shm_mib if inside or case.scope.shm_mib.is_known else case.facts.host.shm_mib
    if count == 1 or (count is None and len(case.devices) == 1 and case.facts.devices.is_known):
        raise NotApplicable("one process serves one device")
    is_told = case.workload is not None and case.workload.args.is_known
    by_default = size.partial and len(case.devices) < 2
    if count is None and (is_told or not size.is_known or by_default or computes_on_cpu(case)):
        raise NotApplicable("nothing tells of several processes")
    have = size.known("scope.shm_mib")
    if have > _DOCKER_DEFAULT_MIB * max(1, (count or 1) // _RANKS_PER_DEFAULT):
        return
    workers = f"{count} processes" if count else "several processes"
    yield Fault(
        message=f"shared memory (/dev/shm) is {have} MiB, too little for an engine in {workers}",
        evidence=(Evidence(f"shared memory {have} MiB", size.at),),
        remedies=(
            Remedy(
                "start the container with the host's shared memory", ("docker run --ipc=host ...",)
            ),
            Remedy("or with more of its own", ("docker run --shm-size=16g ...",)),
        ),
        sources=("https://docs.docker.com/reference/cli/docker/container/run/",),
        # A daemon may give more than the command asks for.
        severity=None if count and not size.partial else Severity.WARNING,
    )


# What Docker gives a container that does not ask; NCCL's segments of a few ranks fill it.
_DOCKER_DEFAULT_MIB = 64
_RANKS_PER_DEFAULT = 2


@rule("HST211", cause="disk-too-small", severity=Severity.ERROR)
def disk_too_small(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """There is less free disk than the model's files need.

    What: free space of the file system of the model or cache folder against the size of
        the weights, where the model's index tells it and the files are not there yet.
    Why: the download stops half-way and leaves files that look complete.
    How to fix: free space, or point the cache (HF_HOME) to a larger file system.
    Silent when: the size of the model or the free space is not known.
    Sources: Hugging Face safetensors index, metadata.total_size.
    """
    wanted, is_sure = _size_on_disk(case, matrix)
    spaces = case.facts.host.disk_free.known("host.disk_free")
    env = case.scope.env.value or {}
    home = env.get("HF_HOME") or env.get("HF_HUB_CACHE") or env.get("HOME") or "/"
    holding = [s for s in spaces if home == s.path or home.startswith(s.path.rstrip("/") + "/")]
    space = max(holding, key=lambda s: len(s.path), default=None)
    if space is None:
        raise MissingFact("host.disk_free of the model cache", Missing.NOT_STATED)
    if space.free_mib < wanted:
        yield Fault(
            message=f"the model needs {wanted} MiB on disk, and {space.path} has {space.free_mib}",
            evidence=(
                Evidence(f"{space.path}: {space.free_mib} MiB free", case.facts.host.disk_free.at),
            ),
            remedies=(
                Remedy(
                    "keep the model cache on a larger file system",
                    ("export HF_HOME=/larger/folder",),
                ),
            ),
            severity=None if is_sure else Severity.WARNING,
        )


def _size_on_disk(case: Case, matrix: Matrix) -> tuple[int, bool]:
    """MiB of the model's files, and whether its index tells them.

    Where somebody handed over what is free, the size of the published model counts too.
    """
    work = case.workload
    model = work.model.value if work is not None else None
    total = _number((model or {}).get("total_size"))
    if total is not None:
        return ceil(total / _MIB_PER_GIB / _MIB_PER_GIB), True
    is_handed_over = case.facts.host.disk_free.at in ("df", "measured")
    name = str(arguments(case).get("model") or "")
    need = checkpoint(case, matrix) if is_handed_over and not name.startswith(("/", ".")) else None
    if need is None or not need.total_gib:
        raise NotApplicable("the size of the model is not known")
    # What converts a checkpoint writes it once more beside the files that it reads.
    copies = 2 if arguments(case).get("convert_checkpoint") else 1
    return ceil(need.total_gib * _MIB_PER_GIB) * copies, False


@rule("HST221", cause="ulimit-too-low", severity=Severity.WARNING)
def limits_too_low(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """The limit of open files or of locked memory is below what the engine asks for.

    What: the limits of the engine's process, or of those started from here while it does
        not run, against those that the engine's project names.
    Why: under load each connection takes a file ("Too many open files"); pinned and RDMA
        memory counts against the limit of locked memory.
    How to fix: raise the limit in the unit, the container or the shell.
    Silent when: no figure is known for the engine, or the limits were not read.
    Sources: sources of the engines (claims in the matrix).
    """
    found, setting = engine(case, matrix), settings(case, matrix)[0]
    own = case.workload.limits if case.workload is not None else Limits()
    here = case.facts.host.limits
    files = own.open_files if own.open_files.is_known else here.open_files
    memory = own.locked_memory_kib if own.locked_memory_kib.is_known else here.locked_memory_kib
    yield from each(
        (
            lambda: _below(matrix, found, setting, "open-files", files),
            lambda: _below(matrix, found, setting, "memlock-kib", memory),
        )
    )


def _below(
    matrix: Matrix, found: Software, setting: Setting, key: str, limit: Reading[int]
) -> Iterator[Fault]:
    asked = [m for m in covering(matrix, found, "limit", key) if holds(m.claim, setting)]
    if not asked:
        raise NotApplicable(f"no limit is known that {found.name} asks for")
    have = limit.known(f"host.limits.{key}")
    wanted = int(asked[0].claim.value)
    if have not in (-1, 0) and have < wanted:
        name = "open files" if key == "open-files" else "KiB of locked memory"
        flag = f"--ulimit nofile={wanted}" if key == "open-files" else "--ulimit memlock=-1"
        yield Fault(
            message=f"the limit is {have} {name}, and {found.label} asks for {wanted}",
            evidence=(Evidence(f"limit: {have} {name}", limit.at),),
            remedies=(
                Remedy(
                    "raise the limit where the engine is started",
                    (
                        f"docker run {flag} ...",
                        f"ulimit -n {wanted}  # or LimitNOFILE= in the unit",
                    ),
                ),
            ),
            sources=tuple(asked[0].claim.source),
            extrapolated=asked[0].extrapolated,
        )


RULES: tuple[Rule, ...] = (
    memory_too_small,
    shared_memory_too_small,
    disk_too_small,
    limits_too_low,
)
