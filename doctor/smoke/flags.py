"""Whether a version of an engine knows a flag, by the flag claims of the matrix. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from doctor.facts import Version
from doctor.matrix import Matrix
from doctor.matrix.model import Claim

_NEGATED = "--no-"


@dataclass(frozen=True)
class Standing:
    """`refused` says why the flag cannot be given, "" if it can; `note` what is not certain."""

    refused: str = ""
    note: str = ""


def standing(matrix: Matrix, engine: str, version: Version | None, flag: str) -> Standing:
    """What becomes of `flag` ("--swap-space") in that version of the engine.

    A flag of which nothing is known is refused only where all flags of the version were read.
    """
    own = list(matrix.claims(engine, "flag", None, flag))
    if not own and flag.startswith(_NEGATED):
        # Switches have an opposite that no source lists.
        return standing(matrix, engine, version, f"--{flag.removeprefix(_NEGATED)}")
    if not own:
        return _unlisted(matrix, engine, version, flag)
    if version is None:
        return Standing(note="the version is not known, so its flags were not checked")
    holding = list(matrix.claims(engine, "flag", version, flag))
    if not holding:
        return Standing(_too_early([match.claim for match in own], engine, version, flag))
    for match in holding:
        if match.claim.value in ("removed", "renamed"):
            return Standing(_gone(match.claim, engine, version))
    extrapolated = next((match.extrapolated for match in holding if match.extrapolated), "")
    note = f"its flags are taken to be those of {extrapolated}" if extrapolated else ""
    return Standing(note=note)


def _unlisted(matrix: Matrix, engine: str, version: Version | None, flag: str) -> Standing:
    domain = matrix.engine(engine)
    rosters = [r for r in domain.rosters if r.kind == "flag"] if domain else []
    for roster in rosters:
        if version is not None and _within(version, roster.first, roster.verified_to):
            return Standing(f"{engine} {version} has no flag {flag}")
    return Standing(note=f"nothing is known of {flag} in {engine}")


def _within(version: Version, first: str, last: str) -> bool:
    return version.at_least(Version(first)) is True and version.newer_than(Version(last)) is False


def _too_early(claims: list[Claim], engine: str, version: Version, flag: str) -> str:
    starts = [claim.since for claim in claims if claim.since and claim.value == "exists"]
    later = next((s for s in starts if version.older_than(Version(s)) is True), "")
    comes = f"it comes with {later}" if later else "it was never seen in it"
    return f"{engine} {version} does not know {flag}: {comes}"


def _gone(claim: Claim, engine: str, version: Version) -> str:
    how = "no longer knows" if claim.value == "removed" else "has renamed"
    last = claim.data.get("last_seen", "")
    when = f" (last seen in {last})" if last else ""
    remedy = claim.remedy or claim.data.get("renamed_to", "")
    return f"{engine} {version} {how} {claim.key}{when}" + (f": {remedy}" if remedy else "")
