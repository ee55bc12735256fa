"""Which number formats an engine takes on a card, by the claims of the matrix."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from doctor.facts import Version
from doctor.matrix import Matrix
from doctor.matrix.claims import capability_matches
from doctor.matrix.model import Claim
from doctor.sizing.cards import Card

_SUPPORTED = "supported"


class Support(str, Enum):
    """Whether a format is taken; UNKNOWN where no claim speaks of it."""

    YES = "supported"
    NO = "unsupported"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Answer:
    """Support of one method, why not, and the sources that say so."""

    method: str
    support: Support
    text: str = ""
    sources: tuple[str, ...] = ()


@dataclass(frozen=True)
class Engine:
    """An engine of some version on a card; None where not known."""

    name: str
    version: Version | None = None
    card: Card | None = None


def support(matrix: Matrix, kind: str, engine: Engine, method: str) -> Answer:
    """What claims of that kind ("quantization", "kv-dtype") say of a method on a card.

    A claim that refuses is believed before one that supports, unless it speaks of one
    backend of several.
    """
    known = engine.version or matrix.newest(engine.name)
    claims = (match.claim for match in matrix.claims(engine.name, kind, known, method))
    found = [claim for claim in claims if _holds(claim, engine.card)]
    refusing = [c for c in found if c.value != _SUPPORTED and "backend" not in c.when]
    if refusing:
        text = refusing[0].text or f"{method} is {refusing[0].value}"
        return Answer(method, Support.NO, text, refusing[0].source)
    taking = [c for c in found if c.value == _SUPPORTED]
    if taking:
        return Answer(method, Support.YES, sources=taking[0].source)
    refused = [c for c in found if c.value != _SUPPORTED]
    if refused:
        return Answer(method, Support.NO, refused[0].text, refused[0].source)
    return Answer(method, Support.UNKNOWN)


def refusal(matrix: Matrix, kind: str, engine: Engine, methods: tuple[str, ...]) -> Answer | None:
    """The first refusal, if one of these methods is refused and none is known to be taken."""
    answers = [support(matrix, kind, engine, method) for method in methods]
    if any(answer.support is Support.YES for answer in answers):
        return None
    return next((answer for answer in answers if answer.support is Support.NO), None)


def _holds(claim: Claim, card: Card | None) -> bool:
    """True if nothing known of the card speaks against the claim's conditions."""
    if card is None:
        return not claim.when
    vendor, capability, soc = (claim.when.get(k) for k in ("vendor", "capability", "soc"))
    if vendor and card.vendor not in vendor.split("|"):
        return False
    if capability:
        return card.capability is not None and capability_matches(capability, card.capability)
    return not soc or any(word in card.soc for word in soc.split("|"))
