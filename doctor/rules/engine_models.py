"""Rules about models that an engine release does not know."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from doctor.facts import Missing, MissingFact, Version
from doctor.findings import Evidence, Remedy
from doctor.matrix import Matrix
from doctor.matrix.model import Claim, Confidence
from doctor.matrix.ranges import covers
from doctor.rules.engine import Case, Fault, Severity, rule
from doctor.rules.model_facts import architecture_names, stated_architectures
from doctor.rules.settings import fold
from doctor.rules.software import (
    Software,
    admits,
    engine,
    index_command,
    installed,
    shared_pin,
    software,
)

_BORROWED = "model-config"  # architectures whose configuration the engine takes from Transformers
_LOADERS = ("mlx-lm",)
_EXACT = re.compile(r"==\s*([\d.]+)")
_PLUGINS = {"vllm-ascend": "vllm"}
# Class names of transformers; types and names of files are too free to say that one is unknown.
_CLASS = re.compile(r"[A-Z]\w*For(?:CausalLM|ConditionalGeneration)")


@rule("ENG401", cause="model-not-supported-by-version", severity=Severity.ERROR)
def model_unknown_to_release(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """The engine release, or the transformers beside it, is older than the model's architecture.

    What: the architecture and model_type of the model against the first version that
        knows it, for the engine and for transformers, or the one that the release pins.
    Why: the loader stops with "Transformers does not recognize this architecture" or
        "architectures are not supported".
    How to fix: the first release that knows the model, or newer.
    Silent when: the model's architecture is not known, or none that lists of the engine's
        architectures were read for; of transformers, where the engine lists the model and
        asks for no newer one or came out before any that knows it. A warning for one that no
        release lists, under a build from between two releases, which may list it already, and
        where a release is only believed to be the first.
    Sources: model registries of the releases (rows in the matrix).
    """
    names = architecture_names(case, matrix)
    if not names:
        raise MissingFact("model architecture", Missing.NOT_STATED)
    found = _registry_of(matrix, engine(case, matrix))
    is_between = found.version is not None and ".dev" in found.version.public
    faults = [
        replace(fault, severity=Severity.WARNING) if is_between else fault
        for subject in (found, *_transformers(case, matrix, found, names), *_loaders(case, matrix))
        for fault in _unknown_models(case, matrix, subject, names)
    ]
    faults += [] if faults else _of_pinned(case, matrix, found, names)
    yield from faults or _in_no_release(case, matrix, found)


def _of_pinned(case: Case, matrix: Matrix, serving: Software, names: list[str]) -> list[Fault]:
    """The one transformers that a release pins, for a model whose configuration is from there."""
    pin = _EXACT.fullmatch(shared_pin(serving, "transformers"))
    borrowed = {fold(m.claim.key) for m in matrix.claims(serving.name, _BORROWED)}
    is_stated = case.scope.package("transformers") is not None
    if pin is None or is_stated or not serving.is_settled or borrowed.isdisjoint(map(fold, names)):
        return []
    beside = software(matrix, "transformers", Version(pin[1]), f"pin of {serving.label}")
    found = _unknown_models(case, matrix, beside, names)
    return [replace(fault, severity=Severity.WARNING) for fault in found]


def _registry_of(matrix: Matrix, found: Software) -> Software:
    """The engine whose registry counts: a plug-in of the same version number has its host's."""
    if found.name not in _PLUGINS or any(matrix.claims(found.name, "model")):
        return found
    if found.version is None or not found.version.is_exact or found.beyond:
        return found
    # 0.9.2rc1 goes with 0.9.2; a later patch (0.7.3.post1) may bring models of newer hosts.
    number = ".".join(map(str, found.version.release[:3]))
    if not re.fullmatch(re.escape(number) + r"(?:rc\d+)?", found.version.public):
        return found
    host = software(matrix, _PLUGINS[found.name], Version(number), found.at)
    return host if host.is_settled else found


def _in_no_release(case: Case, matrix: Matrix, found: Software) -> Iterator[Fault]:
    """An architecture that the configuration names, and that no release read so far lists."""
    domain = matrix.engine(found.name)
    rosters = [row for row in (domain.rosters if domain else ()) if row.kind == "model"]
    stated = [name for name in stated_architectures(case) if _CLASS.fullmatch(name)]
    if not rosters or not stated or found.beyond:
        return
    keys = [match.claim.key for match in matrix.claims(found.name, "model")]
    known = {fold(key) for key in keys}
    is_of_classes = any(_CLASS.fullmatch(key) for key in keys)  # and not of types
    if not is_of_classes or any(fold(name) in known for name in stated):
        return
    yield Fault(
        f"no release of {found.name} up to {rosters[0].verified_to} lists {stated[0]}",
        evidence=(found.evidence, Evidence(f"model architecture {stated[0]}")),
        remedies=(
            Remedy(
                "use a checkpoint of an architecture that is listed, a plug-in that brings "
                "this one, or another engine"
            ),
        ),
        sources=rosters[0].source,
        # A plug-in may register it, or the engine take the model's own code.
        severity=Severity.WARNING,
    )


def _transformers(
    case: Case, matrix: Matrix, serving: Software, names: list[str]
) -> Iterator[Software]:
    """The transformers beside the engine, unless the engine brings the model's configuration.

    It does where it lists the model and asks for no newer transformers than this, or is older
    than the one that first knew the model, unless the matrix says that it takes the
    configuration from there.
    """
    found = installed(case, matrix, "transformers")
    if found is None or found.version is None:
        return
    pin = shared_pin(serving, "transformers")
    is_asked_for = bool(pin) and admits(pin, found.version) is True
    folded = {fold(name) for name in names}
    is_borrowed = any(fold(m.claim.key) in folded for m in matrix.claims(serving.name, _BORROWED))
    suffices = is_asked_for or _came_first(matrix, serving, names)
    if is_borrowed or not (suffices and _lists(matrix, serving, names)):
        yield found


def _came_first(matrix: Matrix, serving: Software, names: list[str]) -> bool:
    """Tell whether the engine's release is older than the transformers that first knew the model.

    One that lists it all the same has its configuration from elsewhere: its own code or the
    checkpoint's.
    """
    domain = matrix.engine("transformers")
    folded = {fold(name) for name in names}
    claims = (match.claim for match in matrix.claims("transformers", "model"))
    first = {claim.since for claim in claims if fold(claim.key) in folded}
    known = {row.version: row.released for row in (domain.releases if domain else ())}
    days = [known.get(since, "") for since in first]
    ours = [row.released for row in serving.rows] if serving.is_settled else []
    return bool(days and ours) and all(days) and all(ours) and max(ours) < min(days)


def _loaders(case: Case, matrix: Matrix) -> Iterator[Software]:
    """Installed packages that hold the models of an engine which is a library of arrays."""
    found = installed(case, matrix, *_LOADERS)
    if found is not None:
        yield found


def _lists(matrix: Matrix, subject: Software, names: list[str]) -> bool:
    folded = {fold(name) for name in names}
    claims = [m.claim for m in matrix.claims(subject.name, "model") if fold(m.claim.key) in folded]
    return any(
        claim.value != "unsupported" and all(covers(claim, v) for v in subject.versions)
        for claim in claims
    )


def _unknown_models(
    case: Case, matrix: Matrix, subject: Software, names: list[str]
) -> Iterator[Fault]:
    folded = {fold(name) for name in names}
    claims = [match.claim for match in matrix.claims(subject.name, "model")]
    # What its maker calls a model, where no architecture of it is known: qwen2.5-vl, deepseek-v3.2.
    called = {squeezed(name) for name in names}
    by_name = not any(fold(claim.key) in folded for claim in claims)
    for claim in claims:
        is_meant = _base(claim.key) in called if by_name else fold(claim.key) in folded
        if not is_meant or not _is_outside(subject, claim):
            continue
        is_doubt = claim.confidence is Confidence.INFERRED or _may_fall_back(case, matrix, subject)
        yield Fault(
            _unknown_text(subject, claim),
            evidence=(subject.evidence, Evidence(f"model architecture {claim.key}")),
            remedies=_upgrade(matrix, subject, claim),
            sources=claim.source,
            severity=Severity.WARNING if is_doubt else None,
        )
        return


def listed_classes(matrix: Matrix, found: Software, names: list[str]) -> list[str]:
    """The classes among the names; else those that the engine lists and a name squeezed is of."""
    keys = [match.claim.key for match in matrix.claims(found.name, "model")]
    known = {fold(key): key for key in keys}
    classes = [known.get(fold(n), n) for n in names if fold(n) in known or _CLASS.fullmatch(n)]
    wanted = {squeezed(name) for name in names}
    return classes or [key for key in known.values() if _base(key) in wanted]


def squeezed(name: str) -> str:
    """A name in letters and figures alone: "qwen2.5-vl" and "Qwen2_5_VL" are qwen25vl."""
    return re.sub(r"-exp$|[^a-z0-9]", "", name.lower())


def _base(architecture: str) -> str:
    """The squeezed name of a class without its task; "" for one of another kind of model."""
    match = _CLASS.fullmatch(architecture)
    return squeezed(architecture.rpartition("For")[0]) if match else ""


def _unknown_text(subject: Software, claim: Claim) -> str:
    why = f": {claim.text}" if claim.text else ""
    if claim.value == "unsupported":
        return f"{subject.label} does not serve {claim.key}{why}"
    newest = next(iter(subject.versions), None)
    if claim.until and newest is not None and newest.at_least(Version(claim.until)) is True:
        return f"{subject.label} no longer knows {claim.key}{why}"
    first = f"; {claim.since} is the first that does" if claim.since else ""
    return f"{subject.label} does not know {claim.key}{first}"


def _is_outside(subject: Software, claim: Claim) -> bool:
    """Tell whether every version that it may be is outside of the claim's range."""
    if claim.value == "unsupported":
        return True
    versions = [v for v in subject.versions if v.is_exact]
    return bool(versions) and all(covers(claim, v) is False for v in versions)


def _may_fall_back(case: Case, matrix: Matrix, subject: Software) -> bool:
    """An engine that can serve models through transformers may know it by way of that."""
    generic = next(matrix.claims(subject.name, "model", None, "TransformersForCausalLM"), None)
    if generic is None or case.scope.package("transformers") is None:
        return False
    return all(covers(generic.claim, v) is not False for v in subject.versions)


def _upgrade(matrix: Matrix, subject: Software, claim: Claim) -> tuple[Remedy, ...]:
    if claim.remedy:
        return (Remedy(claim.remedy),)
    if not claim.since:
        return ()
    commands = index_command(matrix, subject.name, f">={claim.since}")
    return (Remedy(f"upgrade to {claim.since} or newer", commands),)


RULES = (model_unknown_to_release,)
