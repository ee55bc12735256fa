"""Rules about the cards that an engine release supports."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from doctor.facts import ComputeCapability, Device, Version
from doctor.findings import Remedy
from doctor.matrix import ClaimMatch, Matrix
from doctor.matrix.model import Release
from doctor.rules import cards
from doctor.rules.engine import Case, Fault, NotApplicable, Severity, rule
from doctor.rules.image_facts import is_of_others
from doctor.rules.libc_floors import of_program
from doctor.rules.model_facts import model_name
from doctor.rules.settings import Setting, applicable, holds, settings
from doctor.rules.software import Software, engine, index_command

_FORMAT = re.compile(r"[-_./](?:awq|gptq|bf16|fp8|nvfp4|mxfp4|w4a16|w8a8)", re.IGNORECASE)
_CHOICES = ("dtype", "quantization", "kv_cache_dtype", "attention_backend", "tensor_parallel_size",
           "gpu_memory_utilization", "enable_prefix_caching", "enable_chunked_prefill")  # fmt: skip


@rule("ENG101", cause="cc-below-engine-minimum", severity=Severity.ERROR, gate=True)
def card_below_minimum(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """The GPU's compute capability is below the lowest one that the engine release supports.

    What: the compute capability of every NVIDIA device against the minimum of the
        release's published build, and the minimum that the engine itself enforces.
    Why: the build holds no code for the card; the engine refuses it at start, or dies
        with "no kernel image is available".
    How to fix: the newest release that still supports the card, another engine, or a
        newer card.
    Silent when: the engine does not run on NVIDIA devices here. A warning where it is built
        here, or comes in somebody else's image of it: such a build can hold other code.
    Sources: build files and measured code targets of the releases (rows in the matrix).
    """
    devices = case.need_vendor("nvidia")
    found = engine(case, matrix)
    floors = floors_of(case, matrix, found)
    if not floors:
        if found.version is not None and not found.rows:
            raise found.unknown()
        raise NotApplicable(f"the matrix names no minimum for {found.name}")
    faults = [f for d in _distinct(devices, matrix) for f in _below(matrix, found, d, floors)]
    for fault in faults:
        level = _level(case, matrix, found, fault)
        yield replace(fault, severity=level, extrapolated=found.beyond)
    if found.beyond and not faults:
        raise found.unknown()


def _level(case: Case, matrix: Matrix, found: Software, fault: Fault) -> Severity | None:
    """What the fault weighs where something speaks against a plain release of the project."""
    # Who chose a format or a kernel for the card hardly means the newest, which refuses it.
    if fault.severity is Severity.WARNING and _has_choice(case):
        return Severity.INFO
    # Who builds it, or publishes an image of it, may have taken the check out.
    is_built = case.workload is not None and case.workload.building.is_known
    is_changed = is_built or is_of_others(case.scope, matrix, found.name)
    return Severity.WARNING if fault.severity is None and is_changed else fault.severity


def _has_choice(case: Case) -> bool:
    args = (case.workload.args.value or {}) if case.workload else {}
    return any(args.get(name) for name in _CHOICES) or bool(_FORMAT.search(model_name(case)))


def is_below_minimum(case: Case, matrix: Matrix, capability: ComputeCapability) -> bool:
    """Tell whether every version that the engine may be asks for more than this capability."""
    floors = floors_of(case, matrix, engine(case, matrix))
    return bool(floors) and all(capability < floor.capability for floor in floors)


@dataclass(frozen=True)
class Floor:
    """The lowest capability that one version supports, with the row that says so."""

    version: str
    capability: ComputeCapability
    text: str
    sources: tuple[str, ...]
    remedy: str = ""
    is_weak: bool = False


def floors_of(case: Case, matrix: Matrix, found: Software) -> list[Floor]:
    """Minimum of each version that the engine may be, newest first, where it is known."""
    setting = settings(case, matrix)[0]
    floors = []
    # A build from between two releases may be as either of them.
    is_between = found.version is not None and ".dev" in found.version.public
    near = tuple(Version(row.version) for row in found.rows) if is_between else ()
    for version in near or found.versions or (None,):
        row = _row(found, version)
        listed = [
            _claim_floor(m, version) for m in _minimum_claims(matrix, found, version, setting)
        ]
        if row is not None and row.min_capability:
            floor = _parse(row.min_capability)
            listed.append(Floor(row.version, floor, "", row.source))
        if listed:
            floors.append(max(listed, key=lambda floor: floor.capability))
    return floors


def _row(found: Software, version: Version | None) -> Release | None:
    same = (r for r in found.rows if version is not None and r.version == version.public)
    return next(same, found.rows[0] if len(found.rows) == 1 else None)


def _minimum_claims(
    matrix: Matrix, found: Software, version: Version | None, setting: Setting
) -> Iterator[ClaimMatch]:
    if matrix.engine(found.name) is None:
        yield from of_program(matrix, found.name, "capability-program")
    for match in matrix.claims(found.name, "min-capability", version):
        bounded = bool(match.claim.since or match.claim.until)
        # Of a stated release its code is known, which tells more.
        told = found.version is not None and match.claim.data.get("unstated")
        if holds(match.claim, setting) and not told and not (version is None and bounded):
            yield match


def _claim_floor(match: ClaimMatch, version: Version | None) -> Floor:
    c = match.claim
    is_weak = c.data.get("level") == "warning"
    return Floor(str(version or ""), _parse(c.value), c.text, c.source, c.remedy, is_weak)


def _parse(text: str) -> ComputeCapability:
    return ComputeCapability.parse(text if "." in text else f"{text}.0")


def _distinct(devices: tuple[Device, ...], matrix: Matrix) -> list[Device]:
    """One device of each capability; those of unknown capability come last."""
    seen: dict[str, Device] = {}
    for device in devices:
        seen.setdefault(str(cards.capability(device, matrix).value), device)
    return sorted(seen.values(), key=lambda d: not cards.capability(d, matrix).is_known)


def _below(matrix: Matrix, found: Software, device: Device, floors: list[Floor]) -> Iterator[Fault]:
    """An error if every version refuses the card, a warning if the newest ones do."""
    capability, told = cards.highest_capability(device, matrix)
    refusing = [floor for floor in floors if capability < floor.capability]
    if not refusing and cards.need_capability(device, matrix):
        return
    some = len(refusing) < len(floors)
    is_told = found.version is not None and ".dev" not in found.version.public
    if some and (is_told or not capability < floors[0].capability):
        raise found.unknown()
    lowest = floors[0] if some else min(refusing, key=lambda floor: floor.capability)
    since = f" from {_first_refusing(floors, capability)} on" if some else ""
    yield Fault(
        f"{found.label}{since} needs compute capability {lowest.capability}; "
        f"{cards.label(device, matrix)} has {told}{': ' if lowest.text else ''}{lowest.text}",
        evidence=(cards.evidence(device, matrix), found.evidence),
        remedies=(
            *((Remedy(lowest.remedy),) if lowest.remedy else ()),
            *_older_release(matrix, found, capability),
        ),
        sources=lowest.sources,
        subject=device.id,
        severity=Severity.WARNING if some or lowest.is_weak else None,
    )


def _first_refusing(floors: list[Floor], capability: ComputeCapability) -> str:
    """The oldest of the newest versions that refuse the capability without a gap."""
    oldest = floors[0].version
    for floor in floors:
        if not capability < floor.capability:
            break
        oldest = floor.version
    return oldest


def _older_release(
    matrix: Matrix, found: Software, capability: ComputeCapability
) -> tuple[Remedy, ...]:
    newest_first = sorted(matrix.versions(found.name), key=lambda row: row[1].low, reverse=True)
    able = (
        release.version
        for release, _ in newest_first
        if release.min_capability and not capability < _parse(release.min_capability)
    )
    best = next(able, None)
    if best is None:
        return (Remedy("use a newer card, or an engine that supports this one"),)
    return (
        Remedy(
            f"install {found.name} {best}, the newest that supports the card",
            index_command(matrix, found.name, f"=={best}"),
            role="engine_venv",
        ),
    )


@rule("ENG103", cause="cc-not-in-binary", severity=Severity.ERROR)
def card_refused_by_release(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """The engine release is known not to run on this generation of cards.

    What: statements of the matrix that a release does not run on a range of compute
        capabilities, mostly those that are newer than the release.
    Why: its builds hold no code for the card, and its PTX cannot be compiled for it.
    How to fix: the first release that supports the card.
    Silent when: nothing is stated; the rules on binaries judge by the code itself.
    Sources: release notes and threads of the engines (rows in the matrix).
    """
    case.facts.devices.present("devices")
    found = engine(case, matrix)
    if found.name == "torch":
        raise NotApplicable("the rules on binaries judge torch")
    for setting in settings(case, matrix):
        for match in applicable(matrix, found, "capability-unsupported", setting):
            device = setting.device
            if device is None or match.claim.value != "unsupported":
                continue
            level = f" ({setting.capability})" if setting.capability else ""
            yield Fault(
                f"{found.label} does not run on {cards.label(device, matrix)}{level}: "
                f"{match.claim.text}",
                evidence=(cards.evidence(device, matrix), found.evidence),
                remedies=(Remedy(match.claim.remedy or f"upgrade {found.name}"),),
                sources=match.claim.source,
                subject=device.id,
                extrapolated=match.extrapolated,
                severity=Severity.WARNING if match.claim.data.get("level") == "warning" else None,
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


RULES = (card_below_minimum, release_newer_than_matrix, card_refused_by_release)
