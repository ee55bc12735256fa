"""What labelled public reports turned out to be: rows of the domain `likelihood`."""

from __future__ import annotations

from msgspec import Struct

from doctor.matrix.model import Confidence


class Word(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A thing that reports state ("capability 12.0"), and what it speaks for.

    `weights` are hundredths of a nat, one for each cause in the order of `causes`.
    """

    word: str
    weights: tuple[int, ...]


class PublicReport(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A labelled report: where it stands, what it turned out to be, the places of its words."""

    source: str
    cause: str
    words: tuple[int, ...]


class Level(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Of `reports` whose first cause had at least this share, how many it was right for.

    Measured on sets of reports that the weights had not seen.
    """

    share: float
    right: int
    reports: int


class LikelihoodDomain(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A multinomial logistic regression over what reports state, and the reports it is from.

    `causes` begins with "", which stands for hosts on which nothing of the environment was
    wrong; `bias` are hundredths of a nat for them. `levels` run from sure to unsure.
    """

    as_of: str
    source: tuple[str, ...]
    confidence: Confidence
    note: str
    causes: tuple[str, ...]
    bias: tuple[int, ...]
    levels: tuple[Level, ...]
    words: tuple[Word, ...]
    reports: tuple[PublicReport, ...]
