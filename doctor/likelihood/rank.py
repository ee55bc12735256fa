"""The causes that a report's words speak for, with how often that was right."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace

from doctor.matrix.likelihood import Level, LikelihoodDomain, PublicReport

_NAMED = 3
_ALIKE = 2
_SPOKEN = 3


@dataclass(frozen=True)
class Likely:
    """A cause with its share of the faults; of the first also what speaks for it.

    `because` are words, `alike` public reports; `right` of `reports` unseen ones at this level
    turned out so.
    """

    cause: str
    share: float
    because: tuple[str, ...] = ()
    alike: tuple[str, ...] = ()
    right: int = 0
    reports: int = 0


def likeliest(
    words: frozenset[str], domain: LikelihoodDomain, sound: float = 1.0
) -> tuple[Likely, ...]:
    """The causes that such reports mostly have, likeliest first.

    None if more than a share `sound` of such reports come from hosts on which nothing of the
    environment was wrong, if nothing but an engine is stated, or if the first cause is so
    unclear that it was never measured.
    """
    if all(word.startswith("engine ") for word in words):
        return ()
    shares = dict(zip(domain.causes, _softmax(_scores(words, domain)), strict=True))
    if shares.pop("") > sound:
        return ()
    total = sum(shares.values())
    causes = sorted(shares, key=lambda cause: -shares[cause])[:_NAMED]
    level = _level(shares[causes[0]] / total, domain)
    if level is None:
        return ()
    first, *others = (Likely(cause, shares[cause] / total) for cause in causes)
    told = replace(
        first,
        because=_because(first.cause, words, domain),
        alike=_alike(first.cause, words, domain),
        right=level.right,
        reports=level.reports,
    )
    return (told, *others)


def _tells(word: str) -> bool:
    """More than that somebody states a thing, whatever it is."""
    return not word.startswith("stated ")


def _scores(words: frozenset[str], domain: LikelihoodDomain) -> list[float]:
    """The sum of bias and weights for each cause, in nats."""
    rows = [domain.bias, *(row.weights for row in domain.words if row.word in words)]
    return [sum(column) / 100 for column in zip(*rows, strict=True)]


def _softmax(scores: list[float]) -> list[float]:
    highest = max(scores)
    powers = [math.exp(score - highest) for score in scores]
    return [power / sum(powers) for power in powers]


def _level(share: float, domain: LikelihoodDomain) -> Level | None:
    return next((level for level in domain.levels if share >= level.share), None)


def _because(cause: str, words: frozenset[str], domain: LikelihoodDomain) -> tuple[str, ...]:
    """The words that speak most for a cause."""
    place = domain.causes.index(cause)
    spoken = [
        (row.weights[place], row.word)
        for row in domain.words
        if row.word in words and row.weights[place] > 0 and _tells(row.word)
    ]
    return tuple(word for _, word in sorted(spoken, reverse=True)[:_SPOKEN])


def _alike(cause: str, words: frozenset[str], domain: LikelihoodDomain) -> tuple[str, ...]:
    """Reports of that cause that share most, rare words counting more than common ones."""
    told = Counter(place for report in domain.reports for place in report.words)
    rarity = {place: math.log(len(domain.reports) / n) ** 2 for place, n in told.items()}
    mine = {place for place, row in enumerate(domain.words) if row.word in words}

    def nearness(report: PublicReport) -> float:
        return _cosine(mine, set(report.words), rarity)

    ones = [report for report in domain.reports if report.cause == cause]
    nearest = (report.source for report in sorted(ones, key=nearness, reverse=True))
    return tuple(dict.fromkeys(nearest))[:_ALIKE]


def _cosine(a: set[int], b: set[int], rarity: dict[int, float]) -> float:
    def length(places: Iterable[int]) -> float:
        return math.sqrt(sum(rarity.get(place, 0.0) for place in places))

    return sum(rarity.get(place, 0.0) for place in a & b) / ((length(a) * length(b)) or 1.0)
