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
from doctor.rules.model_facts import argument, count, known_model, model_name
from doctor.rules.software import engine
from doctor.rules.split_memory import layers_asked, least_gib, lent_memory
from doctor.sizing.formats import kv_format
from doctor.sizing.pools import split_row

_GIB = 1 << 30
_HALF = 2  # bytes


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
    if weights <= own < weights + cache:
        yield Fault(
            f"a context of {length} tokens takes {cache:.1f} GiB beside {weights:.1f} of weights; "
            f"the devices have {own:.1f}",
            evidence=(
                Evidence(f"context {length} ({why})", argument(case, "max_model_len")[1]),
                Evidence(f"{len(case.devices)} devices, {own:.1f} GiB", case.facts.devices.at),
            ),
            remedies=(Remedy("ask for a shorter context, such as -c 8192"),),
            sources=row.source,
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


RULES: tuple[Rule, ...] = (context_exceeds_devices,)
