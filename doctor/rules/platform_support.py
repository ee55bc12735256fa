"""Machines that an engine's project does not build for, or builds for apart."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.facts import OsRelease, Version
from doctor.findings import Evidence, Remedy
from doctor.matrix import ClaimMatch, Matrix
from doctor.rules import cards
from doctor.rules.driver_state import DRIVER_DOMAIN
from doctor.rules.engine import Case, Fault, NotApplicable, Rule, Severity, rule
from doctor.rules.image_facts import CUDA_BASE, rows_of
from doctor.rules.settings import covering, holds, possible, settings
from doctor.rules.software import Software, engine


@rule("HST195", cause="jetson-specific", severity=Severity.ERROR)
def engine_not_made_for_jetson(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """The engine's project makes no build for this Jetson, or one that must be chosen.

    What: a Jetson, or its JetPack, against what the matrix knows of the engine's platforms.
    Why: a Jetson takes machine code and libraries of its own; the general build does not
        find the GPU, or does not install.
    How to fix: the build or the engine that the finding names.
    Silent when: nothing is stated for the engine. A warning where a build for the Jetson
        exists and only has to be chosen, or where some releases are concerned.
    Sources: documentation and issue threads of the engines (rows in the matrix).
    """
    tegra = [d for d in case.nvidia_devices if cards.is_tegra(d, matrix)]
    if not tegra and case.facts.host.platform.known("host.platform") != "jetson":
        raise NotApplicable("not a Jetson")
    found = engine(case, matrix)
    rows = [
        (match, sure)
        for match, sure in possible(matrix, found, "platform", settings(case, matrix)[0])
        if _speaks_of_jetson(case, match)
    ]
    if not rows:
        raise NotApplicable(f"nothing is stated of {found.name} on a Jetson")
    for match, sure in rows:
        claim = match.claim
        refused = claim.value == "unsupported" and sure and not claim.data.get("of")
        own_build = bool(case.scope.variants.get(found.name) or case.scope.image.ref)
        if own_build and (claim.value == "variant" or claim.key != "jetson"):
            continue
        yield Fault(
            f"{found.label} on a Jetson: {claim.text}",
            evidence=(found.evidence, _machine(case, matrix)),
            remedies=(Remedy(claim.remedy),) if claim.remedy else (),
            sources=claim.source,
            severity=None if refused else Severity.WARNING,
            extrapolated=match.extrapolated,
        )
        return


_BY_PIP = re.compile(r"\b(?:pip3?|uv)\s+(?:pip\s+)?(?:install|add)\b", re.IGNORECASE)


def _speaks_of_jetson(case: Case, match: ClaimMatch) -> bool:
    """The Jetson in general, or the JetPack that is here; or a lack of any build for its CPU.

    Of the wheels of the index only where pip is told of: else it may be a wheel for this board.
    """
    key = match.claim.key
    if match.claim.data.get("of") == "wheels" and not any(map(_BY_PIP.search, case.facts.notes)):
        return False
    jetpack = case.facts.host.jetpack.value
    if key == "aarch64":
        return match.claim.value == "unsupported"
    return key == "jetson" or (jetpack is not None and key == f"jetpack{jetpack.major}")


def _machine(case: Case, matrix: Matrix) -> Evidence:
    for device in case.nvidia_devices:
        return cards.evidence(device, matrix)
    return Evidence("Jetson", case.facts.host.platform.at)


@rule("HST197", cause="jetson-specific", severity=Severity.WARNING)
def server_image_on_jetson(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """An image made for servers is meant to run on a Jetson before JetPack 7.

    What: a known image of an engine or framework for NVIDIA cards, whose name speaks of no
        Jetson, against the module and its JetPack.
    Why: such images hold code and libraries for the cards of servers, and those for aarch64
        are made for SBSA machines. Before JetPack 7 a Jetson takes machine code and CUDA
        libraries of its own, from L4T.
    How to fix: the image's variant for integrated GPUs (igpu), or one of jetson-containers
        for this L4T.
    Silent when: the image is not known, names a Jetson, or the engine is stated apart.
    Sources: NVIDIA containers for Jetson and JetPack; triton-inference-server issue 7798.
    """
    tegra = [d for d in case.nvidia_devices if cards.is_tegra(d, matrix)]
    if not tegra and case.facts.host.platform.known("host.platform") != "jetson":
        raise NotApplicable("not a Jetson")
    if not _has_own_libraries(case, matrix):
        raise NotApplicable("a Jetson that runs what is made for servers")
    rows = rows_of(case.scope.image.ref, matrix)
    if not rows or any(r.vendor != "nvidia" or CUDA_BASE in r.repository for r in rows):
        raise NotApplicable("no image of an engine for NVIDIA cards")
    apart = (m.claim for m in matrix.claims(rows[0].engine, "platform", None, "jetson"))
    if any(claim.data.get("of") != "wheels" for claim in apart):
        raise NotApplicable("the engine on a Jetson is stated apart")
    if _OF_JETSON.search(case.scope.image.ref):
        return
    yield Fault(
        f"{case.scope.image.ref} is made for servers, and this is a Jetson",
        evidence=(Evidence(case.scope.image.ref, "image"), _machine(case, matrix)),
        remedies=(Remedy("use the image's igpu variant, or an image made for this L4T"),),
        sources=("https://github.com/triton-inference-server/server/issues/7798",),
    )


_OF_JETSON = re.compile(r"igpu|l4t|jetson|jetpack|tegra|[-:.]r3\d\.")


def _has_own_libraries(case: Case, matrix: Matrix) -> bool:
    """A module and JetPack that do not run what is made for servers, as far as they are known."""
    jetpack, setting = case.facts.host.jetpack.value, settings(case, matrix)[0]
    return any(
        holds(match.claim, setting) is not False
        and (jetpack is None or jetpack.older_than(Version(match.claim.value)) is True)
        for match in matrix.claims(DRIVER_DOMAIN, "jetson-libraries")
    )


@rule("HST198", cause="jetson-specific", severity=Severity.ERROR)
def image_of_another_l4t(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """The image is made for another release of L4T than the Jetson has.

    What: the L4T that the image's tag names (r36.2.0) against the one of the system, or those
        of its JetPack.
    Why: the driver and, before L4T 34, CUDA itself come from the system into the container;
        those of another generation do not fit: CUDA gives an initialization error.
    How to fix: the tag for the L4T at hand, or flash the JetPack that the image asks for.
    Silent when: the tag names no L4T, or one of the same JetPack.
    Sources: jetson-containers issues 149 and 353 (rows in the matrix).
    """
    named = _L4T.search(case.scope.image.ref.rpartition(":")[2])
    if named is None:
        raise NotApplicable("the image names no L4T")
    rows = [m.claim for m in matrix.claims(DRIVER_DOMAIN, "jetson-l4t")]
    host = case.facts.host
    jetpack = str(host.jetpack.value.major) if host.jetpack.value else ""
    l4t = str(host.l4t.known("host.l4t").major) if not jetpack else ""
    own = next((r for r in rows if r.key == jetpack or l4t in r.value.split("|")), None)
    if own is not None and named[1] not in own.value.split("|"):
        at = host.jetpack.at or host.l4t.at
        yield Fault(
            f"the image is made for L4T {named[1]}, and JetPack {own.key} has L4T "
            + own.value.replace("|", " or "),
            evidence=(Evidence(case.scope.image.ref, "image"), Evidence(f"JetPack {own.key}", at)),
            remedies=(Remedy("use the image's tag for this L4T, or flash the other JetPack"),),
            sources=tuple(own.source),
        )


_L4T = re.compile(r"(?:^|[-_.])r(3\d)\.\d")


@rule("HST132", cause="arch-wheel-missing", severity=Severity.ERROR)
def engine_not_made_for_system(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """The engine's project makes no build for this operating system, or for this version of it.

    What: the operating system and its version against what the matrix knows of the engine's
        platforms.
    Why: the index then has a source archive only, whose build fails, or which installs
        without its compiled kernels; a wheel for Linux is refused.
    How to fix: WSL, a container, or another engine.
    Silent when: nothing is stated for the engine, or it runs in WSL or a container. A warning
        where somebody else keeps builds of that release for the system.
    Sources: documentation and issue threads of the engines (rows in the matrix).
    """
    system = case.facts.host.os.known("host.os")
    inside = case.scope.kind in ("container", "image") or bool(case.scope.image.ref)
    if inside or case.facts.host.platform.value == "wsl2":
        raise NotApplicable("it runs in a Linux of its own")
    found = engine(case, matrix)
    yield from _older_system(case, matrix, found, system)
    rows = possible(matrix, found, "platform", settings(case, matrix)[0])
    for match, sure in rows:
        claim = match.claim
        if claim.key == system.id and claim.value == "unsupported":
            # Somebody else keeps builds of these releases, of which an install tells nothing.
            by_others = claim.data.get("level") == "warning"
            yield Fault(
                f"{found.label} on {system.pretty or system.id}: {claim.text}",
                evidence=(found.evidence, Evidence(system.id, case.facts.host.os.at)),
                remedies=(Remedy(claim.remedy),) if claim.remedy else (),
                sources=claim.source,
                severity=None if sure and not by_others else Severity.WARNING,
                extrapolated=match.extrapolated,
            )
            return


def _older_system(
    case: Case, matrix: Matrix, found: Software, system: OsRelease
) -> Iterator[Fault]:
    """A version of the system that is older than the release is built for."""
    version = Version.maybe(system.version)
    for match in covering(matrix, found, "os-floor", system.id):
        floor = match.claim.value
        if version is not None and version.older_than(Version(floor)) is True:
            yield Fault(
                f"{found.label} needs {system.id} {floor}; this is {version}",
                evidence=(
                    found.evidence,
                    Evidence(f"{system.id} {version}", case.facts.host.os.at),
                ),
                remedies=(Remedy(f"an older release of {found.name}, or a newer {system.id}"),),
                sources=match.claim.source,
                extrapolated=match.extrapolated,
            )


RULES: tuple[Rule, ...] = (
    image_of_another_l4t,
    engine_not_made_for_jetson,
    server_image_on_jetson,
    engine_not_made_for_system,
)
