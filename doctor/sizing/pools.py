"""Which rows of the matrix say how an engine of some version divides memory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from doctor.facts import ComputeCapability, Version
from doctor.matrix.memory import EnginePool, LayerSplit, MemoryDomain, Tier
from doctor.matrix.ranges import covers
from doctor.sizing.cards import GIB, Card


def pool_row(
    memory: MemoryDomain, engine: str, version: Version | None, generation: str = ""
) -> EnginePool | None:
    """How that version sizes its pool; the newest rows if it is not known, None without any.

    `generation` asks for one of two cores that a version has ("v0", "v1").
    """
    rows = [row for row in memory.pools if row.engine == engine]
    rows = [row for row in rows if version is None or covers(row, version) is not False] or rows
    chosen = [row for row in rows if row.generation == generation] if generation else []
    chosen = chosen or [row for row in rows if row.default] or rows
    return max(chosen, key=lambda row: _since(row).low, default=None)


def _since(row: EnginePool) -> Version:
    return Version(row.since or "0")


def beyond(row: EnginePool, version: Version | None) -> bool:
    """True if the version is newer than what the row was verified for."""
    if version is None or not row.verified_to:
        return False
    return version.newer_than(Version(row.verified_to)) is True


def split_row(memory: MemoryDomain, engine: str) -> LayerSplit | None:
    """The row of an engine that shares layers with the CPU, or None."""
    return next((row for row in memory.splits if row.engine == engine), None)


def tier(row: EnginePool, card: Card | None) -> Tier | None:
    """Defaults for large cards that hold for this one, or None."""
    if card is None:
        return None
    name = card.name.lower()
    fitting = [
        each
        for each in row.tiers
        if card.total >= each.from_gib * GIB and not any(word in name for word in each.names_not)
    ]
    return max(fitting, key=lambda each: each.from_gib, default=None)


def weakest(cards: Sequence[Card]) -> Card | None:
    """The card with the least memory: it decides for all ranks."""
    return min(cards, key=lambda card: card.total, default=None)


def capabilities(cards: Iterable[Card]) -> tuple[ComputeCapability, ...]:
    """The compute capabilities that are known, each once."""
    return tuple(dict.fromkeys(card.capability for card in cards if card.capability))
