"""The context of engines that allocate all of it at start, beside layers on the devices."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from doctor.errors import UsageError
from doctor.facts import Missing, MissingFact, Version
from doctor.findings import Evidence, Remedy
from doctor.matrix import Matrix
from doctor.matrix.architectures import ModelRow
from doctor.matrix.memory import LayerSplit
from doctor.rules.engine import Case, Fault, NotApplicable, Rule, Severity, rule
from doctor.rules.model_facts import argument, count, environment, known_model, model_name
from doctor.rules.placement import placement
from doctor.rules.software import engine
from doctor.rules.split_memory import layers_asked, least_gib, lent_memory
from doctor.sizing.formats import kv_format
from doctor.sizing.pools import split_row

_GIB = 1 << 30
_HALF, _FLOAT = 2, 4  # bytes
_DIGITS = 10
_OFF = ("off", "false", "0", "no", "disabled")


@rule("SRV107", cause="insufficient-memory-kv", severity=Severity.WARNING)
def context_exceeds_devices(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """The cache of the whole context does not fit beside the layers on the devices.

    What: the context that was asked for, or that the release takes by itself, times the bytes
        of a token, beside the weights of the layers that were put on the devices.
    Why: these engines allocate the cache when they start; releases that take the context the
        model was trained for ask for tens of GiB for a request of a few words.
    How to fix: a shorter context (-c), a cache of fewer bits, or fewer layers.
    Silent when: the layers alone do not fit (another rule), the number of layers is left to the
        engine, the cache stays in host memory, or the context is not known.
    Sources: llama.cpp pull request 10136; configurations of the models (rows in the matrix).
    """
    share = layers_asked(case, matrix)
    if argument(case, "no_kv_offload")[0]:
        raise NotApplicable("the cache stays in host memory")
    row = known_model(matrix, model_name(case))
    if row is None or not row.plain_attention or row.kv_bytes_per_token is None:
        raise MissingFact("KV bytes per token of the model", Missing.NOT_STATED)
    length, why = _context(case, matrix, row)
    weights, own = least_gib(case, matrix) * share, lent_memory(case, matrix)
    cache = length * row.kv_bytes_per_token * share * _element(case, matrix) / _HALF / _GIB
    scores = _scores_gib(case, matrix, row, length)
    if weights <= own < weights + cache + scores:
        beside = f" and its scores {scores:.1f}" if scores else ""
        yield Fault(
            f"a context of {length} tokens takes {cache:.1f} GiB{beside} beside {weights:.1f} of "
            f"weights; the devices have {own:.1f}",
            evidence=(
                Evidence(f"context {length} ({why})", argument(case, "max_model_len")[1]),
                Evidence(f"{len(case.devices)} devices, {own:.1f} GiB", case.facts.devices.at),
            ),
            remedies=(Remedy("ask for a shorter context, such as -c 8192"),),
            sources=row.source,
        )


def _scores_gib(case: Case, matrix: Matrix, row: ModelRow, length: int) -> float:
    """GiB of the scores of one batch against the whole context, where flash attention is off."""
    split = split_row(matrix.memory, engine(case, matrix).name)
    is_off = str(argument(case, "flash_attn")[0]).lower() in _OFF
    if not is_off or split is None or not row.heads:
        return 0.0
    return length * (count(case, "ubatch_size") or split.ubatch) * row.heads * _FLOAT / _GIB


@rule("SRV109", cause="insufficient-memory-kv", severity=Severity.WARNING)
def context_exceeds_memory(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """The cache of the context alone is larger than the memory that it would be in.

    What: the context that was asked for, times the requests at a time where each has its own,
        times the bytes of a token, against the devices of Ollama, or against the memory of a
        host of which no device is known.
    Why: the cache is made when the model is loaded. Ollama then leaves most layers to the
        processor; without devices the allocation fails, or the kernel ends the process.
    How to fix: a shorter context, fewer requests at a time, or a cache of fewer bits.
    Silent when: model, memory or context are not known, or somebody puts layers on devices.
    Sources: FAQ of Ollama on context length and parallel requests; llama.cpp documentation.
    """
    name = engine(case, matrix).name
    if case.workload is None or placement(case, matrix).holds != "shared":
        raise NotApplicable("no engine that makes the whole cache at start")
    row = known_model(matrix, model_name(case))
    if row is None or not row.plain_attention or row.kv_bytes_per_token is None:
        raise MissingFact("KV bytes per token of the model", Missing.NOT_STATED)
    length, at = _asked_context(case)
    cache = length * row.kv_bytes_per_token * _element(case, matrix) / _HALF / _GIB
    own, what = _where(case, matrix, name)
    if cache + _least(case, matrix, own) > own:
        yield Fault(
            f"a context of {length} tokens takes {cache:.0f} GiB; {what} {own:.0f}",
            evidence=(Evidence(f"context {length}", at), Evidence(f"{what} {own:.0f} GiB")),
            remedies=(Remedy("ask for a shorter context, or for fewer requests at a time"),),
            sources=row.source,
        )


def _least(case: Case, matrix: Matrix, own: float) -> float:
    """GiB of weights beside the cache, where they are known and the memory holds them."""
    with suppress(MissingFact):
        weights = least_gib(case, matrix)
        return weights if weights < own and not case.devices else 0.0
    return 0.0


def _asked_context(case: Case) -> tuple[int, str]:
    """Tokens of all requests together that were asked for, and where."""
    env = environment(case)
    stated = count(case, "max_model_len")
    by_env = env.get("OLLAMA_CONTEXT_LENGTH", "")
    length = stated or (int(by_env) if by_env.isdecimal() and len(by_env) < _DIGITS else 0)
    if not length:
        raise NotApplicable("no context is asked for")
    parallel = env.get("OLLAMA_NUM_PARALLEL", "")
    times = int(parallel) if parallel.isdecimal() and len(parallel) < _DIGITS else 1
    return length * max(times, 1), argument(case, "max_model_len")[1] or case.scope.env.at


def _where(case: Case, matrix: Matrix, name: str) -> tuple[float, str]:
    """GiB of what the cache would be in, and what that is."""
    if case.devices and name == "ollama":
        return lent_memory(case, matrix), "the devices have"
    if case.devices or argument(case, "n_gpu_layers")[0]:
        raise NotApplicable("layers are on devices (another rule)")
    host = case.facts.host
    return (host.memory_mib.known("host.memory_mib") + (host.swap_mib.value or 0)) / 1024, (
        "memory and swap are"
    )


def _context(case: Case, matrix: Matrix, row: ModelRow) -> tuple[int, str]:
    """Tokens that the cache is made for, and why so many."""
    stated = count(case, "max_model_len")
    if stated is not None:
        return stated, "as asked for"
    found = engine(case, matrix)
    split = split_row(matrix.memory, found.name)
    if split is None or found.version is None or not row.max_positions:
        raise MissingFact("length of the context", Missing.NOT_STATED)
    if _takes_its_own(split, found.version):
        return row.max_positions, f"that of the model, which {found.label} takes by itself"
    raise NotApplicable("a context of moderate length unless asked for")


def _takes_its_own(split: LayerSplit, version: Version) -> bool:
    """Tell whether that release makes the cache as long as the model was trained for."""
    if not split.own_context_since:
        return False
    is_older = version.older_than(Version(split.own_context_until)) is True
    return is_older and version.at_least(Version(split.own_context_since)) is True


def _element(case: Case, matrix: Matrix) -> float:
    """Bytes of an element of the cache: two unless another known format was asked for."""
    asked = str(argument(case, "kv_cache_dtype")[0] or "auto")
    with suppress(UsageError):
        return kv_format(matrix.memory, asked).bytes_per_element
    return float(_HALF)


RULES: tuple[Rule, ...] = (context_exceeds_devices, context_exceeds_memory)
