"""Claims about ranges of versions: which of them speak of a version, and under which conditions."""

from __future__ import annotations

from dataclasses import dataclass

from doctor.facts import ComputeCapability, Specifier, Version
from doctor.matrix.model import Claim


@dataclass(frozen=True)
class ClaimMatch:
    """A claim that speaks of a version; `extrapolated` names `verified_to` if that was passed."""

    claim: Claim
    extrapolated: str = ""


def capability_matches(spec: str, capability: ComputeCapability) -> bool:
    """Tell whether a compute capability satisfies a `when` of a claim: ">=8.0,<9.0" or "9.0|10.0".

    Compared as numbers with two parts, so 10.0 is above 9.0 and 12.0 is not a kind of 10.
    """
    if spec[:1] in "<>=!~":
        parsed = Specifier.parse(spec)
        return parsed is not None and parsed.admits(Version(str(capability))) is True
    return str(capability) in spec.split("|")


def in_range(claim: Claim, version: Version) -> bool:
    """Tell whether the range of the claim may hold the version."""
    if claim.since and version.older_than(Version(claim.since)) is True:
        return False
    return not (claim.until and version.at_least(Version(claim.until)) is True)


def beyond(claim: Claim, version: Version | None) -> str:
    """`verified_to` of the claim if the version is above it or on another scale, else ""."""
    if version is None or not claim.verified_to:
        return ""
    newer = version.newer_than(Version(claim.verified_to))
    # Two exact versions that cannot be compared: a build number and a semantic version.
    other_scale = newer is None and version.is_exact
    return claim.verified_to if newer or other_scale else ""
