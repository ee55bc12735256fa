"""Prompts of a wanted number of tokens, without knowing the server's tokenizer.

Words are strung together at random: no two prompts begin alike, so that a cache of
prefixes cannot make a server look faster than it is. How many tokens a word makes is
measured on the server itself.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

# Common words: nearly every tokenizer has one token for each.
_TEXT = """
the of and to in is was for that with as on by at from it an be are this which or had not but
have one they been all were when who will more no if out so what up said about other into than
its time only could new them man some these then two first may any like now my such make over
our even most me state after also made many did must before back see through way where get
much go well your know should down work year because come people just say each those take day
good how long own right under water light house world life part left number course war
until always away something fact though less public put think almost hand enough far took head
yet government system better set told nothing night end why called find going look asked later
point knew next city business give group young days let room
"""
WORDS = tuple(_TEXT.split())
_STOCK = 60_000


@dataclass(frozen=True)
class Measure:
    """Tokens of a prompt of n words: `base` + n times `slope`."""

    base: float
    slope: float

    def words(self, tokens: int) -> int:
        """How many words make about that many tokens; at least one."""
        return max(1, round((tokens - self.base) / self.slope))


def measured(few: tuple[int, int], many: tuple[int, int]) -> Measure:
    """The measure from two prompts, each (words, tokens), the second one longer."""
    slope = (many[1] - few[1]) / (many[0] - few[0])
    slope = slope if slope > 0 else 1.0
    return Measure(few[1] - slope * few[0], slope)


class Prose:
    """A stock of random words, from which prompts are cut; the same for the same seed."""

    def __init__(self, seed: str) -> None:
        self._random = random.Random(seed)  # noqa: S311 - to repeat, not to hide
        self._stock = self._random.choices(WORDS, k=_STOCK)

    def words(self, count: int) -> str:
        """So many words, the first three of them like in hardly any other prompt."""
        head = self._random.choices(WORDS, k=min(count, 3))
        begin = self._random.randrange(_STOCK)
        body = self._stock[begin : begin + count - len(head)]
        while len(body) + len(head) < count:
            body += self._stock[: count - len(head) - len(body)]
        return " ".join(head + body)
