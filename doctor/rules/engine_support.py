"""Rules about what an engine release supports: cards, serialized plans, its own advisories."""

from __future__ import annotations

from collections.abc import Iterator

from doctor.facts import ComputeCapability, Device, Missing, MissingFact, Version
from doctor.findings import Evidence, Remedy
from doctor.matrix import Matrix
from doctor.matrix.model import Release
from doctor.rules import cards
from doctor.rules.engine import Case, Fault, NotApplicable, Severity, rule
from doctor.rules.settings import applicable, settings
from doctor.rules.software import Software, engine

_WEIGHTS = ("low", "medium", "moderate", "high", "critical")


@rule("ENG101", cause="cc-below-engine-minimum", severity=Severity.ERROR, gate=True)
def card_below_minimum(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """The GPU's compute capability is below the lowest one that the engine release supports.

    What: the compute capability of every NVIDIA device against the minimum of the
        release's published build, and the minimum that the engine itself enforces.
    Why: the build holds no code for the card; the engine refuses it at start, or dies
        with "no kernel image is available".
    How to fix: the newest release that still supports the card, another engine, or a
        newer card.
    Silent when: the engine does not run on NVIDIA devices here; a source build can hold
        other code, which the rules on binaries judge.
    Sources: build files and measured code targets of the releases (rows in the matrix).
    """
    devices = case.need_vendor("nvidia")
    found = engine(case, matrix)
    minima = _minima(case, matrix, found)
    if not minima:
        if found.version is not None and not found.rows:
            raise found.unknown()
        raise NotApplicable(f"the matrix names no minimum for {found.name}")
    for device in _distinct(devices, matrix):
        yield from _below(matrix, found, device, minima)
    if found.beyond:
        raise found.unknown()


def _minima(case: Case, matrix: Matrix, found: Software) -> list[tuple[ComputeCapability, str]]:
    """Minimum of each release that it may be, and the source."""
    claimed = applicable(matrix, found, "min-capability", settings(case, matrix)[0])
    general = [(_parse(m.claim.value), m.claim.source[0]) for m in claimed]
    floor = max(general, key=lambda pair: pair[0], default=None)
    listed = [_row_minimum(row, floor) for row in found.rows]
    if listed and all(pair is not None for pair in listed):
        return [pair for pair in listed if pair is not None]
    return [floor] if floor is not None else []


def _row_minimum(
    row: Release, floor: tuple[ComputeCapability, str] | None
) -> tuple[ComputeCapability, str] | None:
    own = (_parse(row.min_capability), row.source[0]) if row.min_capability else None
    return max((p for p in (own, floor) if p), key=lambda pair: pair[0], default=None)


def _parse(text: str) -> ComputeCapability:
    return ComputeCapability.parse(text if "." in text else f"{text}.0")


def _distinct(devices: tuple[Device, ...], matrix: Matrix) -> list[Device]:
    """One device of each capability; those of unknown capability come last."""
    seen: dict[str, Device] = {}
    for device in devices:
        seen.setdefault(str(cards.capability(device, matrix).value), device)
    return sorted(seen.values(), key=lambda d: not cards.capability(d, matrix).is_known)


def _below(
    matrix: Matrix,
    found: Software,
    device: Device,
    minima: list[tuple[ComputeCapability, str]],
) -> Iterator[Fault]:
    capability = cards.need_capability(device, matrix)
    lacking = [pair for pair in minima if capability < pair[0]]
    if not lacking:
        return
    if len(lacking) < len(minima) and found.version is not None:
        raise found.unknown()
    some = len(lacking) < len(minima)
    minimum, source = min(lacking, key=lambda pair: pair[0])
    last = _last_supporting(found, capability) if some else ""
    scope = f"{found.label} from {last} on" if last else found.label
    yield Fault(
        f"{scope} needs compute capability {minimum}; {cards.label(device)} has {capability}",
        evidence=(cards.evidence(device, matrix), found.evidence),
        remedies=_older_release(found, capability),
        sources=(source,),
        subject=device.id,
        severity=Severity.WARNING if some else None,
    )


def _last_supporting(found: Software, capability: ComputeCapability) -> str:
    """The oldest release that refuses the capability."""
    refusing = [r for r in found.rows if r.min_capability and capability < _parse(r.min_capability)]
    return min((r.version for r in refusing), key=lambda v: Version(v).low, default="")


def _older_release(found: Software, capability: ComputeCapability) -> tuple[Remedy, ...]:
    able = [
        row.version
        for row in found.rows
        if row.min_capability and not capability < _parse(row.min_capability)
    ]
    if not able:
        return (Remedy("use a newer card, or an engine that supports this one"),)
    best = max(able, key=lambda v: Version(v).low)
    return (
        Remedy(
            f"install {found.name} {best}, the newest that supports the card",
            (f"uv pip install {found.name}=={best}",),
            role="engine_venv",
        ),
    )


@rule("ENG102", cause="cc-below-engine-minimum", severity=Severity.INFO)
def release_newer_than_matrix(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """The engine is newer than the newest release that the matrix knows.

    What: the version of the engine against the newest row of the matrix.
    Why: minimum cards, pins and flags of such a release are not known; what is said about
        it is carried over from an older one.
    How to fix: `doctor matrix update`, or judge the findings with that in mind.
    Silent when: the version is known, or older.
    Sources: the matrix.
    """
    found = engine(case, matrix)
    if found.version is None:
        raise found.unknown()
    if found.beyond:
        yield Fault(
            f"{found.label} is newer than {found.beyond}, the newest that the matrix knows",
            evidence=(found.evidence,),
            remedies=(Remedy("bring the matrix up to date", ("doctor matrix update",)),),
            extrapolated=found.beyond,
        )


@rule("ENG201", cause="engine-plan-mismatch", severity=Severity.ERROR)
def plan_for_other_card(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """A serialized TensorRT engine was built on a card of another compute capability.

    What: the compute capability recorded in the plan against that of the device.
    Why: a plan holds code chosen and compiled for one capability; the runtime refuses it
        elsewhere ("generated on an incompatible device").
    How to fix: build the engine again on the card that will serve it.
    Silent when: the plan was built with hardware compatibility, or its capability is not
        known.
    Sources: NVIDIA TensorRT documentation, engine portability.
    """
    plan = _plan(case)
    stated = plan.get("compute_capability", "")
    if not stated or plan.get("hardware_compatibility", "none").lower() not in ("", "none"):
        raise NotApplicable("the plan names no card, or is made for several")
    for device in _distinct(case.need_vendor("nvidia"), matrix):
        capability = cards.need_capability(device, matrix)
        if _parse(stated) != capability:
            yield Fault(
                f"the plan was built for compute capability {stated}; "
                f"{cards.label(device)} has {capability}",
                evidence=(cards.evidence(device, matrix), _plan_evidence(case, stated)),
                remedies=(Remedy("build the engine again on this card", ("trtexec --onnx=...",)),),
                subject=device.id,
            )


@rule("ENG202", cause="engine-plan-mismatch", severity=Severity.ERROR)
def plan_of_other_version(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """A serialized TensorRT engine was built with another version than loads it.

    What: the TensorRT or TensorRT-LLM version recorded with the plan against the one
        that is installed or in the image.
    Why: plans are not compatible across versions unless they are built to be.
    How to fix: build the engine with the version that serves it.
    Silent when: a version is not known, or the plan was built version-compatible.
    Sources: NVIDIA TensorRT documentation, version compatibility; TensorRT-LLM issue 1324.
    """
    plan = _plan(case)
    if plan.get("version_compatible", "").lower() in ("true", "yes", "1"):
        raise NotApplicable("the plan is built version-compatible")
    pairs = [(name, plan[name]) for name in ("tensorrt", "tensorrt-llm") if plan.get(name)]
    found = engine(case, matrix)
    if plan.get("version"):
        pairs.append((found.name, plan["version"]))
    if not pairs:
        raise MissingFact("version of the plan", Missing.NOT_STATED)
    for name, text in pairs:
        here = found.version if name == found.name else _installed(case, name)
        built = Version.maybe(text)
        if here is not None and built is not None and built.same_as(here) is False:
            yield Fault(
                f"the plan was built with {name} {text}; {here} loads it",
                evidence=(_plan_evidence(case, text), Evidence(f"{name} {here}")),
                remedies=(Remedy(f"build the engine with {name} {here}"),),
            )


def _plan(case: Case) -> dict[str, str]:
    if case.workload is None:
        raise NotApplicable("no workload")
    if not (case.workload.plan.is_known or case.workload.engine.startswith("tensorrt")):
        raise NotApplicable("no serialized engine")
    return case.workload.plan.known("engine plan")


def _plan_evidence(case: Case, what: str) -> Evidence:
    at = case.workload.plan.at if case.workload else ""
    return Evidence(f"plan built for {what}", at)


def _installed(case: Case, name: str) -> Version | None:
    package = case.scope.package(name)
    return package.version if package else None


@rule("ENG601", cause="engine-vulnerable", severity=Severity.INFO)
def published_advisories(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """Security advisories have been published for the installed version.

    What: the advisories that the matrix holds, by range of versions; one finding for the
        engine, with the worst severity and the lowest version that is out of all ranges.
    Why: serving engines read untrusted input and often listen on all interfaces.
    How to fix: the version named; until then keep the ports closed to strangers.
    Silent when: the matrix holds none for this version, which does not say that there are
        none: it is as old as its date.
    Sources: advisory records (rows in the matrix).
    """
    found = engine(case, matrix)
    if found.version is None:
        raise found.unknown()
    matches = applicable(matrix, found, "advisory", settings(case, matrix)[0])
    if not matches:
        raise NotApplicable(f"no advisory about {found.label} in the matrix")
    claims = [match.claim for match in matches]
    fixed = [c.until for c in claims if c.until]
    domain = matrix.engine(found.name)
    clear = max(fixed, key=lambda v: Version(v).low) if len(fixed) == len(claims) else ""
    worst = max((str(c.data.get("severity", "")).lower() for c in claims), key=_weight)
    named = ", ".join(c.key for c in claims[:3])
    yield Fault(
        f"{len(claims)} advisories about {found.label} as of {domain.as_of if domain else ''}"
        f"{f', worst {worst}' if worst in _WEIGHTS else ''}: {named}"
        f"{' ...' if len(claims) > 3 else ''}",
        evidence=(found.evidence,),
        remedies=(Remedy(f"upgrade to {clear} or newer" if clear else "keep its ports closed"),),
        sources=tuple(dict.fromkeys(s for c in claims[:3] for s in c.source)),
    )


def _weight(severity: str) -> int:
    return _WEIGHTS.index(severity) if severity in _WEIGHTS else -1


RULES = (
    card_below_minimum,
    release_newer_than_matrix,
    plan_for_other_card,
    plan_of_other_version,
    published_advisories,
)
