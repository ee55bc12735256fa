"""Apply claims of the matrix to a case: does their `when` hold, and what do they add up to?"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from doctor.facts import ComputeCapability, Device, Missing, MissingFact, Scope, Version
from doctor.matrix import ClaimMatch, Matrix, capability_matches
from doctor.matrix.model import Claim
from doctor.matrix.ranges import covers, version_of
from doctor.rules import cards, npus
from doctor.rules.engine import Case
from doctor.rules.model_facts import environment
from doctor.rules.model_kinds import ModelKind
from doctor.rules.software import Software, admits

_REFUSALS = ("unsupported", "removed")
UNRECORDED = "matrix rows about"  # how a missing fact begins of which the matrix says nothing
BACKEND = "attention backend"  # the fact that a claim about one back end leaves open


@dataclass(frozen=True)
class Setting:
    """What the `when` of a claim may ask about; None where it is not known."""

    scope: Scope
    arguments: dict[str, Any]
    environment: dict[str, str] = field(default_factory=dict)
    device: Device | None = None
    vendor: str | None = None
    capability: ComputeCapability | None = None
    soc: frozenset[str] = frozenset()
    arch: str | None = None
    cuda: Version | None = None
    driver: Version | None = None
    python: Version | None = None
    os: str | None = None
    gpu_class: str | None = None
    backend: str | None = None
    variant: str | None = None
    model: ModelKind = ModelKind()


@dataclass(frozen=True)
class Judgement:
    """What the claims about one key add up to.

    `refused` is the claim that rules it out; `listed` the claims that allow it
    elsewhere, if it is outside of all of them; `open` the fact that would decide.
    `mostly` is the refusal of most releases, where the version is not known.
    """

    refused: ClaimMatch | None = None
    listed: tuple[Claim, ...] = ()
    allowed: Claim | None = None
    open: str = ""
    is_known: bool = True
    mostly: ClaimMatch | None = None


def settings(case: Case, matrix: Matrix) -> tuple[Setting, ...]:
    """One setting per different kind of device of the case; one without device if there is none."""
    base = replace(_base(case), model=ModelKind(case, matrix))
    seen: dict[tuple[str, str], Setting] = {}
    for device in cards.distinct(case.devices):
        capability = cards.capability(device, matrix).value
        setting = replace(
            base,
            device=device,
            vendor=device.vendor,
            capability=capability,
            soc=npus.words(device, matrix) if device.vendor == "ascend" else frozenset(),
            gpu_class=cards.shared(device, matrix, "gpu_class") or None,
        )
        seen.setdefault((device.vendor, str(capability or npus.label(device))), setting)
    return tuple(seen.values()) or (base,)


def _base(case: Case) -> Setting:
    host = case.facts.host
    python = case.scope.python.value
    torch = case.scope.torch.value
    return Setting(
        scope=case.scope,
        arguments=(case.workload.args.value or {}) if case.workload else {},
        environment=environment(case),
        arch=host.arch.value,
        cuda=torch.cuda.value if torch else None,
        driver=case.facts.nvidia.driver.value,
        python=python.version if python else None,
        os=_system(case),
    )


def _system(case: Case) -> str | None:
    release = case.facts.host.os.value
    if release is None:
        return None
    return release.id if release.id in ("windows", "macos") else "linux"


def holds(claim: Claim, setting: Setting) -> bool | None:
    """Tell whether every condition of a claim holds; None if one of them is not known."""
    answers = [_condition(key, spec, setting) for key, spec in claim.when.items()]
    if False in answers:
        return False
    return None if None in answers else True


def _condition(key: str, spec: str, setting: Setting) -> bool | None:
    if key.startswith("package:"):
        return _package(key.removeprefix("package:"), spec, setting.scope)
    if key.startswith("arg:"):
        stated = setting.arguments.get(key.removeprefix("arg:"))
        if stated is None:  # who states arguments has asked for no other
            return False if setting.arguments else None
        return _is_one_of(str(stated), spec)
    if key.startswith("env:"):
        return _is_one_of(setting.environment.get(key.removeprefix("env:"), ""), spec)
    if key == "card":
        name = setting.device.name.value if setting.device is not None else None
        return None if name is None else bool(re.search(spec, name, re.IGNORECASE))
    if key in ("model", "attention"):
        return setting.model.is_named(spec) if key == "model" else setting.model.attends(spec)
    value = getattr(setting, key, None)
    if value is None or value == frozenset():
        return None
    if isinstance(value, frozenset):
        return not value.isdisjoint(spec.split("|"))
    if isinstance(value, ComputeCapability):
        return capability_matches(spec, value)
    if isinstance(value, Version):
        return admits(spec, value)
    return _is_one_of(str(value), spec)


def _is_one_of(value: str, spec: str) -> bool:
    return fold(value) in {fold(word) for word in spec.split("|")}


def _package(name: str, spec: str, scope: Scope) -> bool | None:
    if spec == "absent":
        return scope.lacks(name)
    package = scope.package(name)
    if package is None:
        return False if scope.lacks(name) else None
    return admits(spec, package.version) if package.version is not None else None


def fold(name: str) -> str:
    """Names of methods and back ends are compared without case, dash and underscore."""
    return name.strip().lower().replace("-", "_")


def judge(matrix: Matrix, found: Software, kind: str, key: str, setting: Setting) -> Judgement:
    """Add up what the claims of an engine say about one key, over all versions it may be.

    Refused only if every possible version refuses it; a statement in between is open.
    """
    wanted = fold(key)
    claims = [m for m in matrix.claims(found.name, kind) if fold(m.claim.key) == wanted]
    if not claims:
        return Judgement(is_known=False)
    versions: Iterable[Version | None] = found.versions or (None,)
    answers = [_for_version(claims, version, setting) for version in versions]
    if all(a.refused for a in answers):
        return replace(answers[0], refused=_least_extrapolated(answers))
    if all(a.listed for a in answers):
        return answers[0]
    if any(a.refused or a.listed for a in answers):
        return Judgement(open=f"version of {found.name}", mostly=_mostly(answers))
    return answers[0]


def _mostly(answers: list[Judgement]) -> ClaimMatch | None:
    """The refusal of this machine by most of the releases that know the thing at all."""
    refusals = [a.refused for a in answers if a.refused is not None]
    mine = [match for match in refusals if match.claim.when]
    knowing = sum(answer.is_known for answer in answers) - (len(refusals) - len(mine))
    if 2 * len(mine) <= knowing:
        return None
    return next((match for match in mine if not match.claim.data.get("effect")), None)


def _least_extrapolated(answers: list[Judgement]) -> ClaimMatch | None:
    refusals = [a.refused for a in answers if a.refused]
    return min(refusals, key=lambda match: bool(match.extrapolated))


def _for_version(matches: list[ClaimMatch], version: Version | None, setting: Setting) -> Judgement:
    """What the claims say about one version, or about an unknown one of no known range."""
    mine = [replace(m, extrapolated=_past(m.claim, version)) for m in matches]
    mine = [m for m in mine if covers(m.claim, version) is not False]
    states = [(m, holds(m.claim, setting)) for m in mine]
    refusing = [(m, state) for m, state in states if m.claim.value in _REFUSALS]
    for match, state in refusing:
        if state and covers(match.claim, version):
            return Judgement(refused=match)
    allowing = [(m, state) for m, state in states if m.claim.value == "supported"]
    allowed = next((m.claim for m, state in allowing if state), None)
    if allowed is not None:
        return Judgement(allowed=allowed)
    for match, state in (*refusing, *allowing):
        if state is not False:
            return Judgement(open=_first_unknown(match.claim, setting, version))
    elsewhere = tuple(m.claim for m, _ in allowing if _same_vendor(m.claim, setting))
    if any(_fails_only_beside_capability(claim, setting) for claim in elsewhere):
        return Judgement(open=BACKEND)
    return Judgement(listed=elsewhere, is_known=bool(mine))


def _same_vendor(claim: Claim, setting: Setting) -> bool:
    vendor = claim.when.get("vendor")
    return vendor is None or setting.vendor in vendor.split("|")


def _fails_only_beside_capability(claim: Claim, setting: Setting) -> bool:
    """Tell whether the card is not what speaks against a claim that allows something."""
    spec = claim.when.get("capability")
    return spec is None or _condition("capability", spec, setting) is not False


def _past(claim: Claim, version: Version | None) -> str:
    if version is None or not claim.verified_to:
        return ""
    return claim.verified_to if version.newer_than(version_of(claim.verified_to)) is True else ""


def _first_unknown(claim: Claim, setting: Setting, version: Version | None) -> str:
    for key, spec in claim.when.items():
        if _condition(key, spec, setting) is None:
            return _FACT_NAMES.get(key, key)
    return f"version of {claim.subject}" if version is None else claim.id


_FACT_NAMES = {
    "capability": "compute capability",
    "vendor": "devices",
    "soc": "SoC name",
    "arch": "host.arch",
    "cuda": "torch.cuda",
    "driver": "nvidia.driver",
    "python": "python",
    "os": "host.os",
    "gpu_class": "GPU product",
    "card": "GPU product",
    "backend": BACKEND,
    "variant": "build variant",
    "model": "model",
    "attention": "model configuration",
}


def applicable(
    matrix: Matrix, found: Software, kind: str, setting: Setting, key: str | None = None
) -> list[ClaimMatch]:
    """Claims of a kind that hold for sure, for every version that the engine may be."""
    return [m for m in covering(matrix, found, kind, key) if holds(m.claim, setting)]


def covering(
    matrix: Matrix, found: Software, kind: str, key: str | None = None
) -> list[ClaimMatch]:
    """Claims of a kind whose range holds every version that the engine may be."""
    versions: Iterable[Version | None] = found.versions or (None,)
    newest = next(iter(found.versions), None)
    return [
        replace(match, extrapolated=_past(match.claim, newest))
        for match in matrix.claims(found.name, kind, None, key)
        if all(covers(match.claim, version) for version in versions)
    ]


def possible(
    matrix: Matrix, found: Software, kind: str, setting: Setting, key: str | None = None
) -> list[tuple[ClaimMatch, bool]]:
    """Claims that hold for some version the engine may be, and whether they do for all."""
    result = []
    versions: Iterable[Version | None] = found.versions or (None,)
    newest = next(iter(found.versions), None)
    for match in matrix.claims(found.name, kind, None, key):
        answers = [covers(match.claim, version) for version in versions]
        if any(a is not False for a in answers) and holds(match.claim, setting):
            known_to = _past(match.claim, newest)
            result.append((replace(match, extrapolated=known_to), all(answers)))
    return result


def need(judgement: Judgement, what: str) -> None:
    """Raise `MissingFact` for a judgement that is open or has no rows."""
    if judgement.open and judgement.mostly is None:
        raise MissingFact(judgement.open, Missing.NOT_STATED)
    if not judgement.is_known:
        raise MissingFact(f"{UNRECORDED} {what}", Missing.NOT_STATED)
