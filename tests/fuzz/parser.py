"""What a campaign runs: one parser, what it reads, and how it may refuse."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from doctor.errors import DoctorError
from tests.fuzz.mutate import damaged_bytes, damaged_text

_LONGEST_SEED, _MOST_SEEDS = 8_000, 16


@dataclass(frozen=True)
class Parser:
    """`seeds` gives what is damaged; `refusals` are the errors that say no in words.

    `is_text` tells that it reads text: bytes reach it decoded, as its own reader does it.
    """

    name: str
    read: Callable[[Any], object]
    seeds: Callable[[], Sequence[str] | Sequence[bytes]]
    is_text: bool = True
    refusals: tuple[type[Exception], ...] = (DoctorError,)

    def run(self, data: bytes) -> None:
        """Read one input; a refusal is an answer, anything else comes out."""
        try:
            self.read(data.decode("utf-8", "replace") if self.is_text else data)
        except self.refusals:
            return

    @cached_property
    def kept(self) -> tuple[str, ...] | tuple[bytes, ...]:
        """The seeds, small ones first, a bounded number of them."""
        found: list[Any] = [_shrunk(seed) for seed in self.seeds()]
        return tuple(sorted(found, key=len)[:_MOST_SEEDS])

    def damaged(self, rng: random.Random) -> bytes:
        """One damaged seed."""
        one, other = (self.kept[int(rng.random() * len(self.kept))] for _ in range(2))
        if isinstance(one, str) and isinstance(other, str):
            return damaged_text(one, other, rng).encode("utf-8", "replace")
        assert isinstance(one, bytes)
        assert isinstance(other, bytes)
        return damaged_bytes(one, other, rng)


def _shrunk(seed: Any) -> Any:
    """A text cut to what damages reach; JSON loses entries of lists, not its end."""
    if not isinstance(seed, str) or len(seed) <= _LONGEST_SEED:
        return seed
    try:
        return json.dumps(_thinned(json.loads(seed)), indent=1)[: 4 * _LONGEST_SEED]
    except ValueError:
        return seed[:_LONGEST_SEED]


def _thinned(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _thinned(inner) for key, inner in list(value.items())[:40]}
    return [_thinned(inner) for inner in value[:2]] if isinstance(value, list) else value
