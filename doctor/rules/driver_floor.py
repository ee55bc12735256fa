"""Is the driver new enough for the builds, the engine and the cards."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from doctor.facts import Device, Version
from doctor.findings import Evidence, Remedy
from doctor.matrix import ClaimMatch, Matrix
from doctor.rules import builds, cards, compat, release_builds
from doctor.rules.brought import runtime
from doctor.rules.builds import CudaBuild
from doctor.rules.cuda_level import Level, Load, is_windows_driver, level, relation
from doctor.rules.decide import each, need_contents
from doctor.rules.driver_choice import install_branch
from doctor.rules.engine import Case, Fault, NotApplicable, Rule, Severity, rule
from doctor.rules.image_facts import image_cuda
from doctor.rules.settings import applicable, settings
from doctor.rules.software import Software, engine


@rule("DRV101", cause="driver-too-old", severity=Severity.ERROR, gate=True)
def driver_below_runtime(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """The NVIDIA driver is older than the CUDA runtime of an installed build needs.

    What: the CUDA version that the driver library in use offers, and the loaded driver,
        against the CUDA runtime of torch, of the engine (the lowest that a plain install
        brings, if its version is not known: a warning) or of its binaries.
    Why: a wheel brings its own CUDA runtime but talks to the kernel driver. A runtime of
        the same major runs from the floor of that major on, a runtime of a newer major
        not at all; the first CUDA call then fails (CUDA 35).
    How to fix: choose a build for a CUDA version that the driver offers, or raise the
        driver on the host to a branch that offers it and still drives every card. Where
        the cards allow it, a forward-compatibility libcuda is a third way.
    Silent when: the major is the same and the driver meets its floor (minor-version
        compatibility), or a forward-compatibility libcuda is found first.
    Sources: CUDA Compatibility guide, tables of minor-version compatibility and of
        toolkit drivers (rows in the matrix); the release rows of torch and the engine.
    """
    if image_cuda(case.scope, matrix) is None:
        need_contents(case)
    _need_driver(case, matrix)
    build = runtime(case, matrix)
    if build is None and builds.holds_no_cuda(case):
        raise NotApplicable("no build with a CUDA runtime in this scope")
    told = release_builds.named_build(case)
    if build is None or (build.assumed and told is not None and not told.several):
        build = told
    if build is None:
        below = tuple(_below_every_release(case, matrix)) or tuple(_below_toolkit(case, matrix))
        if not below:
            case.scope.torch.known("the CUDA version of the installed build")
        yield from below
        return
    offered = level(case, matrix)
    if offered is None:
        _need_driver_version(case)
        return
    found = relation(build.cuda, offered.cuda, _linux_driver(case, matrix), matrix)
    if found is None or (_is_too_old(found) and compat.may_be_active(case, build.cuda, matrix)):
        case.facts.nvidia.cuda_driver_api.known("nvidia.cuda_driver_api")
    if found is not None and _is_too_old(found):
        yield _too_old(case, matrix, build, offered)


def _below_every_release(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """The engine's version is not known, and the driver is too old for all that are listed."""
    offered = level(case, matrix)
    if offered is None or not offered.cuda.is_exact:
        return
    for default, recent in ((False, False), (True, False), (True, True)):
        build = release_builds.lowest_build(case, matrix, default, recent)
        if build is None or compat.may_be_brought(case, build.cuda, matrix):
            continue
        found = relation(build.cuda, offered.cuda, _linux_driver(case, matrix), matrix)
        if found is not None and _is_too_old(found):
            yield replace(_too_old(case, matrix, build, offered), severity=Severity.WARNING)
            return


def _below_toolkit(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """A toolkit alone is told, and what it compiles does not run on the driver."""
    build, offered = release_builds.toolkit_build(case), level(case, matrix)
    if build is None or offered is None:
        return
    found = relation(build.cuda, offered.cuda, _linux_driver(case, matrix), matrix)
    if found is not None and _is_too_old(found):
        yield _too_old(case, matrix, build, offered)


def _need_driver(case: Case, matrix: Matrix) -> None:
    """An NVIDIA driver, or `NotApplicable`; `MissingFact` if it is not known."""
    facts = case.facts
    if facts.devices.is_known and not case.nvidia_devices:
        raise NotApplicable("no nvidia device")
    if any(cards.is_tegra(d, matrix) for d in case.nvidia_devices):
        raise NotApplicable("the driver of a Jetson belongs to its system image")
    if facts.nvidia.driver.is_absent:
        raise NotApplicable("no driver is loaded")
    if not facts.nvidia.cuda_driver_api.is_known:
        facts.nvidia.driver.known("nvidia.driver")


def _need_driver_version(case: Case) -> None:
    """The driver is known, but not which CUDA version it offers."""
    case.facts.nvidia.cuda_driver_api.known("nvidia.cuda_driver_api")


def _linux_driver(case: Case, matrix: Matrix) -> Version | None:
    """The kernel driver, where Linux floors apply to its number."""
    return None if is_windows_driver(case, matrix) else case.facts.nvidia.driver.value


def _is_too_old(found: Load) -> bool:
    return found in (Load.BELOW_FLOOR, Load.NEWER_MAJOR)


def _too_old(case: Case, matrix: Matrix, build: CudaBuild, offered: Level) -> Fault:
    driver = case.facts.nvidia.driver
    name = f"driver {driver.value}" if driver.value else "the driver"
    row = matrix.family(build.cuda)
    floor = f" and needs driver {row.min_driver} or newer" if row else ""
    return Fault(
        message=f"{name} offers CUDA {offered.cuda}, "
        f"but {build.label} is built for CUDA {build.cuda}{floor}",
        evidence=(offered.evidence, build.evidence),
        remedies=(
            *release_builds.older_builds(
                case, matrix, build, offered.cuda, _linux_driver(case, matrix)
            ),
            *_compat_library(case, matrix, build),
            *install_branch(case, matrix, build.cuda),
        ),
        sources=(*offered.sources, *(row.source if row else ()), *build.sources),
        severity=Severity.WARNING if build.several else None,
    )


def _compat_library(case: Case, matrix: Matrix, build: CudaBuild) -> tuple[Remedy, ...]:
    if compat.eligible(case, build.cuda, matrix) is not True:
        return ()
    package = f"cuda-compat-{build.cuda.major}-{build.cuda.minor}"
    return (
        Remedy(
            action=f"put the forward-compatibility library {package} first for this engine; "
            "its own note must list the driver's branch",
            risk="no graphics, and a later driver upgrade makes it fail",
        ),
    )


@rule("DRV102", cause="driver-too-old", severity=Severity.ERROR, gate=True)
def driver_older_than_card(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """The driver branch is older than a card of this host, and does not see it.

    What: the branch of the loaded driver against the first branch that knows each card.
    Why: a driver ignores PCI ids that it does not know: "No devices were found".
    How to fix: install a branch that drives every card of the host.
    Silent when: the branch is at or above the first one known for each card; for a name
        that fits several products, for the oldest of them. Or it lies between that one and
        the newest whose list was read and lacks the card: nobody looked there.
    Sources: supported-gpus lists inside NVIDIA's drivers (rows in the matrix).
    """
    devices = cards.desktop_cards(case, matrix)
    if is_windows_driver(case, matrix):
        raise NotApplicable("Windows drivers have other numbers")
    driver = cards.driver_to_judge(case).known("nvidia.driver")
    yield from each(
        partial(_card_too_new, case, matrix, d, driver) for d in cards.distinct(devices)
    )


def _card_too_new(case: Case, matrix: Matrix, device: Device, driver: Version) -> Iterator[Fault]:
    span = cards.branch_span(device, matrix)
    if span.first is None:
        if not span.sources:
            device.pci_id.known(f"devices.{device.id}.pci_id")
        return
    older = driver.older_than(Version(str(span.first)))
    if older is None:
        case.facts.nvidia.cuda_driver_api.known("nvidia.driver")
    if older and not cards.was_not_read(matrix, driver, span.first):
        yield Fault(
            message=f"driver {driver} does not know {cards.label(device, matrix)}: "
            f"branch {span.first} is the first that drives it",
            evidence=(driver_fact(case), cards.evidence(device, matrix)),
            remedies=install_branch(case, matrix),
            sources=span.sources,
            subject=device.id,
        )


def driver_fact(case: Case) -> Evidence:
    """The driver that is judged, as evidence."""
    reading = cards.driver_to_judge(case)
    return Evidence(f"driver {reading.value}", reading.at)


@rule("DRV103", cause="driver-too-old", severity=Severity.ERROR, gate=True)
def driver_below_engine_floor(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """The driver is older than this version of the engine accepts.

    What: the loaded driver against the floor that the engine's project states for this
        version, for some builds and cards only.
    Why: an engine may call driver functions, or ship compressed code, that older drivers
        of the same CUDA major do not have.
    How to fix: raise the driver, or stay with an engine version that accepts this one.
    Silent when: no floor is known for the engine version, card and build.
    Sources: release notes and sources of the engines (claims in the matrix).
    """
    _need_driver(case, matrix)
    if is_windows_driver(case, matrix):
        raise NotApplicable("Windows drivers have other numbers")
    found = engine(case, matrix)
    if not any(matrix.claims(found.name, "driver-floor")):
        raise NotApplicable(f"no driver floor is known for {found.name}")
    driver = case.facts.nvidia.driver.known("nvidia.driver")
    for setting in settings(case, matrix):
        for match in applicable(matrix, found, "driver-floor", setting):
            if driver.older_than(Version(match.claim.value)) is True:
                yield _below_engine_floor(case, matrix, found, match)
                return
    if found.version is None:
        raise found.unknown()


def _below_engine_floor(case: Case, matrix: Matrix, found: Software, match: ClaimMatch) -> Fault:
    claim = match.claim
    driver = driver_fact(case)
    reason = f": {claim.text}" if claim.text else ""
    stay = (Remedy(claim.remedy),) if claim.remedy else ()
    return Fault(
        message=f"{found.label} needs driver {claim.value} or newer; this is {driver.fact}{reason}",
        evidence=(driver, found.evidence),
        remedies=(*stay, *install_branch(case, matrix)),
        sources=tuple(claim.source),
        extrapolated=match.extrapolated,
    )


RULES: tuple[Rule, ...] = (
    driver_below_runtime,
    driver_older_than_card,
    driver_below_engine_floor,
)
