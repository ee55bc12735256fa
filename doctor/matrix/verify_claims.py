"""Check claims: ranges that make sense, known conditions, and no two that contradict."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, pairwise

from doctor.facts import ComputeCapability, Version
from doctor.matrix.claims import capability_matches
from doctor.matrix.model import Claim, EngineDomain, Roster

# What a claim may depend on; "package:x" and "arg:x" name a package and an argument.
_WHEN_TEXT = (
    "arch attention backend capability card cuda driver gpu_class model os python soc variant "
    "vendor"
)
WHEN_KEYS = frozenset(_WHEN_TEXT.split())
# Kinds of which several may hold at once for the same key.
_MANY = frozenset(("advisory", "env-var", "gfx", "image", "kernel", "known-bad", "trap"))

# Compute capabilities at which two conditions can be told apart.
_CAPABILITIES = tuple(
    ComputeCapability(major, minor) for major in range(3, 14) for minor in range(10)
)


def claim_faults(domain: EngineDomain) -> Iterator[str]:
    """Faults of the claims of one engine or framework, each naming its claim."""
    names = {domain.name, *domain.aliases, *domain.packages}
    for claim in domain.claims:
        yield from (f"claim {claim.id}: {fault}" for fault in _faults(claim, names))
    for roster in domain.rosters:
        yield from (f"roster {roster.kind}: {fault}" for fault in _roster_faults(roster))
    for one, other in combinations(domain.claims, 2):
        if _contradict(one, other):
            yield f"claims {one.id} and {other.id} contradict each other"


def _faults(claim: Claim, names: set[str]) -> Iterator[str]:
    if claim.subject not in names:
        yield f"speaks of {claim.subject!r}"
    for field in ("since", "until", "verified_to"):
        text = getattr(claim, field)
        version = Version.maybe(text)
        if text and (version is None or not version.is_exact):
            yield f"{field} {text!r} is not a version"
    if _below(claim.until, claim.since) or (claim.until and claim.until == claim.since):
        yield f"the range from {claim.since} to {claim.until} is empty"
    if _below(claim.verified_to, claim.since):
        yield f"verified to {claim.verified_to}, below its start {claim.since}"
    unknown = [key for key in claim.when if key not in WHEN_KEYS and ":" not in key]
    if unknown:
        yield f"unknown condition {unknown[0]!r}"
    if "capability" in claim.when and not _holds_somewhere(claim.when["capability"]):
        yield f"no card satisfies capability {claim.when['capability']!r}"


def _roster_faults(roster: Roster) -> Iterator[str]:
    for name, turns in roster.names.items():
        steps = [text for text in (roster.first, *turns, roster.verified_to) if text]
        if any(Version.maybe(text) is None for text in steps):
            yield f"{name}: {turns} are not all versions"
        elif any(not _below(low, high) for low, high in pairwise(steps[:-1])):
            yield f"{name}: {turns} do not rise from {roster.first}"


def _holds_somewhere(spec: str) -> bool:
    return any(capability_matches(spec, card) for card in _CAPABILITIES)


def _contradict(one: Claim, other: Claim) -> bool:
    """Tell whether two equally specific claims of one rank differ about the same thing."""
    same = (one.kind, one.key, one.confidence) == (other.kind, other.key, other.confidence)
    if not same or one.value == other.value or one.kind in _MANY:
        return False
    if one.when.keys() != other.when.keys():
        return False
    return _ranges_overlap(one, other) and all(
        _conditions_overlap(key, spec, other.when[key]) for key, spec in one.when.items()
    )


def _ranges_overlap(one: Claim, other: Claim) -> bool:
    return not (_ended(one.until, other.since) or _ended(other.until, one.since))


def _ended(until: str, since: str) -> bool:
    """Tell whether a range up to `until`, exclusive, is over when one from `since` begins."""
    return bool(until and since) and not _below(since, until)


def _below(text: str, floor: str) -> bool:
    low, high = Version.maybe(text), Version.maybe(floor)
    return bool(low and high and low.older_than(high))


def _conditions_overlap(key: str, one: str, other: str) -> bool:
    if key == "capability":
        return any(
            capability_matches(one, card) and capability_matches(other, card)
            for card in _CAPABILITIES
        )
    if one[:1] in "<>=!~" or other[:1] in "<>=!~":
        return one == other
    return bool(set(one.split("|")) & set(other.split("|")))
