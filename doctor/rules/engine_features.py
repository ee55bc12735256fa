"""Rules about parts that an engine release or the card lacks: attention kernels and models."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial

from doctor.findings import Evidence, Remedy
from doctor.matrix import ClaimMatch, Matrix
from doctor.matrix.model import Claim, Confidence
from doctor.matrix.ranges import covers
from doctor.rules import cards
from doctor.rules.decide import each
from doctor.rules.engine import Case, Fault, NotApplicable, Severity, rule
from doctor.rules.engine_support import floors_of
from doctor.rules.model_facts import (
    argument,
    environment,
)
from doctor.rules.settings import (
    Judgement,
    Setting,
    applicable,
    fold,
    judge,
    need,
    possible,
    settings,
)
from doctor.rules.software import Software, engine, packages, software

BACKEND_ARGUMENTS = ("attention_backend", "prefill_attention_backend", "decode_attention_backend")
_LIBRARIES = ("transformers", "torch")
_TRUE = ("true",)
_FLASH, _FLASHES = "flash_attention_2", ("use_flash_attn", "use_flash_attention_2")
# Programs' own switches: the values that turn them on, and the back end that they stand for.
_SWITCHES = {
    "flash_attn": (("fa2", "true"), _FLASH),
    "attn_impl": (("flash_attn", "flash_attention_2"), _FLASH),
    **dict.fromkeys(("flash_attention", "use_flash_attention", *_FLASHES), (_TRUE, _FLASH)),
    **dict.fromkeys(("sage_attention", "use_sage_attention"), (_TRUE, "sageattention")),
    "attention_mode": (("sageattn", "sage", "sageattention"), "sageattention"),
}
_BACKEND_VARIABLES = ("VLLM_ATTENTION_BACKEND", "SGLANG_ATTENTION_BACKEND", "ATTENTION")


@rule("ENG301", cause="attention-backend-unsupported", severity=Severity.ERROR)
def attention_backend_refused(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """The attention back end that was chosen does not run on this card or is gone from the release.

    What: the back end from the arguments or environment against the capabilities and
        versions that the matrix records for it. Capabilities are lists and ranges: a
        consumer Blackwell is not "at least" a data-centre one.
    Why: kernels are instantiated for certain architectures; the engine refuses at start
        or at the first request.
    How to fix: leave the back end unset, or choose one that the finding names.
    Silent when: none was chosen. A warning where the back end is not listed for the card,
        without a statement that it is refused, and where the version is not known and most
        releases refuse it.
    Sources: back-end selection code and documentation (rows in the matrix).
    """
    checks = [
        partial(
            _backend_faults,
            matrix,
            provider(case, matrix, "attention-backend", name),
            setting,
            (name, at),
        )
        for name, at in _chosen_backends(case)
        for setting in settings(case, matrix)
    ]
    yield from each(checks)


def _chosen_backends(case: Case) -> list[tuple[str, str]]:
    """Names of back ends with where they were read: of arguments, else of the environment."""
    stated = [argument(case, name) for name in BACKEND_ARGUMENTS]
    env = environment(case)
    stated += _switched_on(case)
    named = [(env[name], f"environment {name}") for name in _BACKEND_VARIABLES if env.get(name)]
    chosen = list({str(name): at for name, at in stated if name}.items()) or named[:1]
    if not chosen:
        raise NotApplicable("no attention back end was chosen")
    return chosen


def _switched_on(case: Case) -> Iterator[tuple[str, str]]:
    """Back ends that programs' own switches ask for, and where."""
    for name, (words, backend) in _SWITCHES.items():
        value, at = argument(case, name)
        if str(value).lower() in words:
            yield backend, at


def provider(case: Case, matrix: Matrix, kind: str, name: str) -> Software:
    """The engine, if claims of it speak of the thing; else the package that brings it.

    That is one beside the engine, else one that a release which it may be requires. Of a
    program that the matrix does not know it is the library whose word for the thing it uses,
    or the package that is called like the thing.
    """
    found = engine(case, matrix)
    if _names(matrix.claims(found.name, kind), name):
        return found
    for package in packages(case):
        if package.name != found.name and _names(matrix.claims(package.name, kind), name):
            return software(matrix, package.name, package.version, case.scope.packages.at)
    for required in _required(matrix, found):
        if _names(matrix.claims(required, kind), name):
            return software(matrix, required, None, found.at)
    if found.name == "torch" or matrix.engine(found.name) is None:
        library = _by_word(matrix, kind, name)
        return software(matrix, library, None, found.at) if library else found
    return found


def _by_word(matrix: Matrix, kind: str, name: str) -> str:
    """The library that a word belongs to: one that lists it as its own, or bears it as name."""
    for library in _LIBRARIES:
        own = (m for m in matrix.claims(library, kind) if m.claim.data.get("own_word"))
        if _names(own, name):
            return library
    called = matrix.canonical(name)
    return called if called and _names(matrix.claims(called, kind), name) else ""


def _required(matrix: Matrix, found: Software) -> tuple[str, ...]:
    """Packages that releases which the engine may be require, those of the newest first."""
    domain = matrix.engine(found.name)
    rows = found.rows or (domain.releases if domain else ())
    return tuple(dict.fromkeys(name for row in rows for name in row.pins))


def _names(claims: Iterable[ClaimMatch], name: str) -> bool:
    return any(fold(match.claim.key) == fold(name) for match in claims)


def _backend_faults(
    matrix: Matrix, found: Software, setting: Setting, chosen: tuple[str, str]
) -> Iterator[Fault]:
    name, at = chosen
    result = judge(matrix, found, "attention-backend", name, setting)
    need(result, f"attention back end {name} of {found.name}")
    fault = refusal(matrix, found, setting, result, f"attention back end {name}")
    if fault is not None:
        others = _other_backends(matrix, found, setting, name)
        remedy = Remedy(f"leave it unset or choose {others}" if others else "leave it unset")
        yield replace(
            fault,
            evidence=(*fault.evidence, Evidence(f"back end {name}", at)),
            remedies=(*fault.remedies, remedy),
        )


def _other_backends(matrix: Matrix, found: Software, setting: Setting, name: str) -> str:
    able = applicable(matrix, found, "attention-backend", setting)
    names = [m.claim.key for m in able if m.claim.value == "supported" and m.claim.key != name]
    return ", ".join(dict.fromkeys(names))


def refusal(
    matrix: Matrix, found: Software, setting: Setting, result: Judgement, what: str
) -> Fault | None:
    """The fault of a judgement: refused (the rule's severity) or not listed (a warning)."""
    device = setting.device
    where = f" on {cards.label(device, matrix)}" if device is not None else ""
    seen = (cards.evidence(device, matrix),) if device is not None else ()
    fault = Fault("", (found.evidence, *seen), subject=device.id if device is not None else "")
    if result.refused is not None:
        claim = result.refused.claim
        return replace(
            _by_claim(fault, claim),
            message=_refused_text(claim, found, what, where),
            severity=_severity(claim),
            extrapolated=result.refused.extrapolated,
        )
    if result.mostly is not None:
        claim = result.mostly.claim
        until = f" before {claim.until}" if claim.until else ""
        text = f"{what} does not work with {found.name}{until}{where}; its version is not known"
        return replace(_by_claim(fault, claim), message=text, severity=Severity.WARNING)
    if result.listed and setting.capability is not None:
        return replace(
            fault,
            message=f"{what} of {found.label} is not listed for compute capability "
            f"{setting.capability}{where}; it is for {_specs(result.listed)}",
            sources=result.listed[0].source,
            severity=Severity.WARNING,
        )
    return None


def _by_claim(fault: Fault, claim: Claim) -> Fault:
    fixes = (Remedy(claim.remedy),) if claim.remedy else ()
    return replace(fault, remedies=fixes, sources=claim.source)


def _severity(claim: Claim) -> Severity | None:
    """Info where the engine falls back by itself, a warning for what was only inferred."""
    if claim.data.get("effect"):
        return Severity.INFO
    weak = claim.confidence is Confidence.INFERRED or claim.data.get("level") == "warning"
    return Severity.WARNING if weak else None


def _refused_text(claim: Claim, found: Software, what: str, where: str) -> str:
    why = f": {claim.text}" if claim.text else ""
    if claim.value == "removed":
        since = f" since {claim.since}" if claim.since else ""
        return f"{found.label} has no {what}{since}{why}"
    return f"{what} does not work with {found.label}{where}{why}"


def _specs(claims: tuple[Claim, ...]) -> str:
    return " or ".join(dict.fromkeys(c.when.get("capability", "others") for c in claims))


@rule("ENG302", cause="attention-backend-unsupported", severity=Severity.ERROR)
def default_attention_refused(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """The attention that the engine uses by itself does not run on this card.

    What: claims about default kernels of a release against the card, unless the variable
        or argument that turns them off is set; and kernels that a model needs.
    Why: the engine has no other path for that model, or does not choose it by itself.
    How to fix: turn the kernel off as the finding says, or another card or release.
    Silent when: a back end was chosen, or the switch is set. A warning if only some of the
        versions it may be are concerned; a note where that is not certain either, unless the
        feature was asked for and most releases for the card lack it.
    Sources: documentation and threads of the engine (rows in the matrix).
    """
    if any(argument(case, name)[0] for name in BACKEND_ARGUMENTS):
        raise NotApplicable("a back end was chosen")
    found = engine(case, matrix)
    env = environment(case)
    for setting in settings(case, matrix):
        for match, is_sure in possible(matrix, found, "default-attention", setting):
            claim = match.claim
            own_path = claim.data.get("unless_model", "")
            if claim.value != "unsupported" or _switched_off(claim, env):
                continue
            if own_path and setting.model.is_named(own_path):
                continue
            fault = refusal(matrix, found, setting, Judgement(refused=match), claim.key)
            if fault is not None:
                is_likely = is_sure or _is_asked_of_most(case, matrix, found, claim)
                yield fault if is_likely else replace(fault, severity=_lower(fault.severity))


def _is_asked_of_most(case: Case, matrix: Matrix, found: Software, claim: Claim) -> bool:
    """Tell whether a feature was asked for that most of the releases for the card lack on it."""
    if not any(key.startswith("arg:") for key in claim.when) or not _severity(claim):
        return False
    card = cards.capability(case.devices[0], matrix).value if case.devices else None
    floors = {floor.version: floor.capability for floor in floors_of(case, matrix, found)}
    usable = [v for v in found.versions if card is None or floors.get(str(v), card) <= card]
    return 2 * sum(covers(claim, version) is True for version in usable) > len(usable)


def _lower(severity: Severity | None) -> Severity:
    """One step below what is said of a version that is known to be concerned."""
    return Severity.WARNING if severity is None else Severity.INFO


def _switched_off(claim: Claim, env: dict[str, str]) -> bool:
    switches = claim.data.get("unless_env", {})
    return any(env.get(name, "").lower() == str(value).lower() for name, value in switches.items())


RULES = (
    attention_backend_refused,
    default_attention_refused,
)
