"""Rules about a serving engine: its port, and what its own figures tell of slow service."""

from __future__ import annotations

from collections.abc import Iterator

from doctor.facts import Missing, MissingFact
from doctor.findings import Evidence, Remedy
from doctor.matrix import Matrix
from doctor.rules.engine import Case, Fault, NotApplicable, Severity, rule
from doctor.rules.model_facts import argument, count
from doctor.rules.settings import possible, settings
from doctor.rules.software import engine

_IDLE_SHARE = 0.3  # below this share of the time the device waits for work
_COLD_FACTOR = 5.0  # the first request against the usual one
_REUSE_FLOOR = 0.05  # share of prompt tokens found in the prefix cache


def _measured(case: Case, *names: str) -> list[float]:
    """Figures that the engine printed; raises `MissingFact` if one of them is not known."""
    if case.workload is None:
        raise NotApplicable("no workload")
    figures = case.workload.measured.known(f"measured {names[0]}")
    for name in names:
        if name not in figures:
            raise MissingFact(f"measured {name}", Missing.NOT_STATED)
    return [float(figures[name]) for name in names]


@rule("SRV301", cause="port-in-use", severity=Severity.ERROR)
def port_taken(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """The port that the engine shall serve on is taken by another process.

    What: the port of the workload, or the release's default, against the ports on which
        this host listens.
    Why: the engine loads for minutes and then fails to bind.
    How to fix: another --port, or stop the other service.
    Silent when: the engine is already running, or listening ports were not read.
    Sources: default ports of the releases (rows in the matrix).
    """
    work = case.workload
    if work is None or work.pid is not None:
        raise NotApplicable("no engine is to be started")
    taken = case.facts.host.listening_ports.known("host.listening_ports")
    port = count(case, "port") or default_port(case, matrix)
    if port is None:
        raise MissingFact("port of the engine", Missing.NOT_STATED)
    if port in taken:
        yield Fault(
            f"port {port} is in use",
            evidence=(Evidence(f"port {port}", case.facts.host.listening_ports.at),),
            remedies=(
                Remedy(
                    "find its owner, and choose another port or stop it",
                    (f"ss -ltnp 'sport = :{port}'",),
                ),
            ),
        )


def default_port(case: Case, matrix: Matrix) -> int | None:
    """The port that every release which this may be takes by default."""
    found = possible(matrix, engine(case, matrix), "parameter", settings(case, matrix)[0], "port")
    defaults = {str(m.claim.data.get("default", m.claim.value)) for m, _ in found}
    port = next(iter(defaults), "")
    return int(port) if len(defaults) == 1 and port.isdecimal() else None


@rule("SRV401", cause="memory-fragmentation", severity=Severity.WARNING)
def memory_fragmented(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """Memory is reserved and unused, and still no block of the size asked for is free.

    What: what torch reserved and allocated, what was asked for and what is free, as the
        engine printed it.
    Why: the allocator keeps blocks of other sizes; together they would be enough.
    How to fix: let the allocator grow its segments; restart now and then.
    Silent when: the request is larger than what is reserved and unused.
    Sources: PyTorch CUDA memory management documentation.
    """
    reserved, allocated, asked = _measured(case, "reserved_gib", "allocated_gib", "requested_gib")
    if reserved - allocated > asked:
        yield Fault(
            f"{reserved - allocated:.2f} GiB are reserved and unused, and {asked:.2f} GiB "
            "could not be had",
            evidence=(Evidence(f"reserved {reserved}, allocated {allocated} GiB"),),
            remedies=(
                Remedy(
                    "let segments grow",
                    ("export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",),
                ),
            ),
        )


@rule("SRV402", cause="memory-leak", severity=Severity.WARNING)
def memory_grows_without_load(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """Memory grows while no request runs.

    What: the growth of memory per hour and the number of running requests.
    Why: requests that ended are not released: aborted clients, cached media, adapters.
    How to fix: a newer release; until then a restart with drained traffic every night.
    Silent when: requests are running, which may need the memory.
    Sources: field guides on running inference services.
    """
    growth, running = _measured(case, "memory_growth_gib_per_hour", "requests_running")
    if growth > 0 and running == 0:
        yield Fault(
            f"memory grows by {growth:.2f} GiB an hour while no request runs",
            evidence=(Evidence(f"growth {growth} GiB/h, {running:.0f} requests"),),
            remedies=(Remedy("upgrade the engine; restart it at night with traffic drained"),),
        )


@rule("SRV403", cause="underutilized", severity=Severity.WARNING)
def device_waits_for_work(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """Requests wait, or few are batched, while the device is mostly idle.

    What: the device's utilization, and running and waiting requests.
    Why: too small a batch limit, gaps between arrivals, or a CPU that cannot feed the
        device (tokenizing, image preprocessing, scheduling).
    How to fix: raise --max-num-seqs, send more at once, give the process more CPU cores.
    Silent when: the device is busy, or nothing runs.
    Sources: field guides: utilization of 70 % and more is the aim.
    """
    used, running, waiting = _measured(
        case, "device_utilization", "requests_running", "requests_waiting"
    )
    if used < _IDLE_SHARE and running > 0:
        why = "requests wait: look at CPU and batch limit" if waiting else "too little load"
        yield Fault(
            f"the device is busy {used:.0%} of the time; {why}",
            evidence=(Evidence(f"{running:.0f} running, {waiting:.0f} waiting requests"),),
            remedies=(Remedy("raise --max-num-seqs, send more requests at once, add CPU cores"),),
            severity=None if waiting else Severity.INFO,
        )


@rule("SRV404", cause="interconnect-bound", severity=Severity.INFO)
def tensor_parallel_over_pcie(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """Tensor parallelism runs over PCIe between devices without NVLink.

    What: how the devices are joined, with a tensor-parallel size of more than one.
    Why: every layer exchanges its activations; over PCIe, and more so across sockets, that
        limits speed. It works.
    How to fix: pipeline parallelism, fewer ranks, or one replica per device.
    Silent when: all devices are joined by NVLink, or the topology is not known.
    Sources: vLLM documentation on parallelism; field guides: at most 2 ranks on such cards.
    """
    size = count(case, "tensor_parallel_size") or 1
    if size == 1 or len(case.devices) < 2:
        raise NotApplicable("one device")
    links = case.facts.topology.known("topology")
    mine = {device.id for device in case.devices}
    slow = [link for link in links if {link.a, link.b} <= mine and not link.link.startswith("NV")]
    if slow:
        worst = "SYS" if any("SYS" in link.link for link in slow) else slow[0].link
        yield Fault(
            f"tensor parallelism over {size} devices crosses PCIe ({worst})",
            evidence=(Evidence(f"{len(slow)} links without NVLink", case.facts.topology.at),),
            remedies=(Remedy("compare with --pipeline-parallel-size, or with replicas"),),
            severity=Severity.WARNING if _is_bound(case) else None,
        )


def _is_bound(case: Case) -> bool:
    figures = (case.workload.measured.value or {}) if case.workload else {}
    return float(figures.get("communication_share", 0.0)) > _IDLE_SHARE


@rule("SRV405", cause="cold-start", severity=Severity.INFO)
def first_requests_slow(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """The first request takes many times as long as the others.

    What: time to first token of the first request against the usual one.
    Why: kernels are compiled, graphs captured and caches filled at first use.
    How to fix: send warm-up requests before the service takes traffic; keep the compile
        caches on disk; install prebuilt kernels.
    Silent when: the two are alike, or were not measured.
    Sources: vLLM documentation on compilation caches; field guides on warm-up.
    """
    first, usual = _measured(case, "first_ttft_s", "ttft_s")
    if usual > 0 and first > usual * _COLD_FACTOR:
        yield Fault(
            f"the first request took {first:.1f} s, others {usual:.2f} s",
            evidence=(Evidence(f"time to first token {first} s, then {usual} s"),),
            remedies=(Remedy("warm up before traffic, and keep the compile caches"),),
        )


@rule("SRV406", cause="kv-not-reused", severity=Severity.INFO)
def prefixes_not_reused(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """Conversations repeat their prefix, and the cache of prefixes is off or never hit.

    What: the switch of prefix caching, and its hit rate where the workload has several turns.
    Why: each turn then computes the whole conversation again; a changing system prompt or
        a template with the time in it defeats the cache.
    How to fix: turn prefix caching on; keep what changes at the end of the prompt.
    Silent when: the workload has single turns, or the hit rate is not known.
    Sources: vLLM and SGLang documentation on prefix caching.
    """
    hits, turns = _measured(case, "prefix_cache_hit_rate", "turns_per_conversation")
    switched_off = str(argument(case, "enable_prefix_caching")[0]).lower() == "false"
    if turns > 1 and (hits < _REUSE_FLOOR or switched_off):
        yield Fault(
            "prefix caching is off" if switched_off else f"{hits:.0%} of prompt tokens are reused",
            evidence=(Evidence(f"hit rate {hits}, {turns:g} turns a conversation"),),
            remedies=(
                Remedy("turn prefix caching on, and keep what changes at the end of the prompt"),
            ),
        )


RULES = (
    port_taken,
    memory_fragmented,
    memory_grows_without_load,
    device_waits_for_work,
    tensor_parallel_over_pcie,
    first_requests_slow,
    prefixes_not_reused,
)
