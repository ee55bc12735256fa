"""How long prompts and answers are: pairs of tokens, drawn again and again in a seeded order."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace

Pair = tuple[int, int]


@dataclass(frozen=True)
class Lengths:
    """Tokens of prompts and answers. `name` says which, `source` where they come from."""

    name: str
    pairs: tuple[Pair, ...]
    source: str = ""

    def draw(self, seed: str) -> Iterator[Pair]:
        """All pairs in random order, then all in another one, without end.

        Unlike free draws this gives two runs of the same length nearly the same work.
        """
        order = random.Random(seed)  # noqa: S311 - to repeat, not to hide
        while True:
            yield from order.sample(self.pairs, len(self.pairs))

    @property
    def longest(self) -> Pair:
        """The pair with most tokens."""
        return max(self.pairs, key=sum)

    def cut(self, prompt: int, output: int) -> Lengths:
        """The same, no prompt and no answer longer than that."""
        pairs = tuple((min(p, prompt), min(o, output)) for p, o in self.pairs)
        return replace(self, pairs=pairs)

    def fit(self, context: int) -> Lengths:
        """The same, no prompt longer together with its answer; prompts give way first."""
        return replace(self, pairs=tuple(_fitted(pair, context) for pair in self.pairs))


def _fitted(pair: Pair, context: int) -> Pair:
    prompt, output = pair
    if prompt + output <= context:
        return pair
    kept = max(context - output, context // 2, 1)
    return kept, max(1, min(output, context - kept))
