"""Claims about ranges of versions: which of them speak of a version, and under which conditions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from doctor.facts import ComputeCapability, Specifier, Version
from doctor.matrix.model import Claim, EngineDomain, Release, Roster
from doctor.matrix.ranges import version_of


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


def beyond(claim: Claim, version: Version | None) -> str:
    """`verified_to` of the claim if the version is above it or on another scale, else ""."""
    if version is None or not claim.verified_to:
        return ""
    newer = version.newer_than(version_of(claim.verified_to))
    # Two exact versions that cannot be compared: a build number and a semantic version.
    other_scale = newer is None and version.is_exact
    return claim.verified_to if newer or other_scale else ""


class EngineIndex:
    """The releases of an engine by version, and its claims by kind."""

    def __init__(self, domain: EngineDomain | None) -> None:
        self._rosters = domain.rosters if domain else ()
        self._written: dict[str, list[Claim]] = {}
        for claim in domain.claims if domain else ():
            self._written.setdefault(claim.kind, []).append(claim)
        self._by_kind: dict[str, tuple[Claim, ...]] = {}
        self._name = domain.name if domain else ""
        self.by_version: dict[tuple[object, ...], Release] = {}
        self._releases = domain.releases if domain else ()
        for release, version in self.versions:
            self.by_version.setdefault(version.low, release)

    @cached_property
    def versions(self) -> tuple[tuple[Release, Version], ...]:
        """Every release with its version, parsed once; in the order of the matrix."""
        return tuple((release, Version(release.version)) for release in self._releases)

    @cached_property
    def newest(self) -> Version | None:
        """The newest final version; the newest of all where none is final."""
        known = [version for _, version in self.versions]
        finals = [v for v in known if not v.is_prerelease] or known
        return max(finals, key=lambda v: v.low, default=None)

    def of_kind(self, kind: str) -> tuple[Claim, ...]:
        """Claims of that kind, those that rosters stand for last."""
        if kind not in self._by_kind:
            written = self._written.get(kind, [])
            known = {claim.key for claim in written}
            rosters = (roster for roster in self._rosters if roster.kind == kind)
            listed = (c for roster in rosters for c in roster_claims(roster, self._name, known))
            self._by_kind[kind] = (*written, *listed)
        return self._by_kind[kind]


def roster_claims(roster: Roster, subject: str, known: set[str]) -> Iterator[Claim]:
    """The claims that a roster stands for: where each name exists, and where it is gone."""
    for name, turns in roster.names.items():
        if name in known:
            continue
        steps = (*(turns or ("",)), "")
        for number, (since, until) in enumerate(pairwise(steps)):
            value = roster.gone if number % 2 else roster.value
            if value:
                yield _listed(roster, subject, name, (since, until), value)


def _listed(roster: Roster, subject: str, name: str, span: tuple[str, str], value: str) -> Claim:
    since, until = span
    return Claim(
        id=f"{subject}-{roster.kind}-{name.lstrip('-').lower()}-{since or roster.first}",
        subject=subject,
        kind=roster.kind,
        key=name,
        since=since,
        until=until,
        verified_to=roster.verified_to,
        value=value,
        source=roster.source,
        confidence=roster.confidence,
        checked=roster.checked,
    )
