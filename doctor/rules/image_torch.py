"""An image with a PyTorch of its own, whose other parts are built against that very one."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.facts import Package
from doctor.findings import Evidence, Remedy
from doctor.matrix import Matrix
from doctor.matrix.model import Claim
from doctor.rules.engine import Case, Fault, NotApplicable, Rule, Severity, rule
from doctor.rules.software import admits, engine, packages


@rule("FRM304", cause="abi-mismatch", severity=Severity.WARNING)
def torch_of_image_replaced(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """The torch of an image that builds its own was replaced by a release from the package index.

    What: in an image whose torch is a build between releases, whether the torch that is stated
        is a final release that the engine asks for; where no torch is stated, whether a
        companion of torch is a release of the package index.
    Why: extensions of such an image (Transformer Engine, Apex, FlashAttention) are compiled
        against its own torch. An installer that follows an engine's pin replaces it; the first
        import of one of them, by transformers or accelerate too, ends in "undefined symbol".
    How to fix: uninstall those extensions, or install the engine in an environment of its own
        or in an image that is made for it.
    Silent when: the torch is the image's own, or not what the engine asks for; it is not stated,
        and the engine's release takes more than one torch or is built here.
    Sources: NVIDIA's release notes of the images; issue threads of vLLM (row in the matrix).
    """
    repository = case.scope.image.ref.partition("@")[0].partition(":")[0]
    rows = [m.claim for m in matrix.claims("torch", "image-own-build") if m.claim.key == repository]
    if not rows:
        raise NotApplicable("no image that builds a torch of its own")
    reading = case.scope.torch
    pins = {row.pins.get("torch", "") for row in engine(case, matrix).rows}
    if not reading.is_known and _brings_own(pins) and not _is_of_image(case):
        yield _will_be_replaced(case, matrix, rows[0], sorted(pins)[0])
        return
    alien = [p for p in packages(case) if p.name in _COMPANIONS and _is_published(p)]
    if not reading.is_known and alien:
        yield _beside_alien(alien[0], rows[0], repository)
        return
    version = reading.known("scope.torch").version
    if version.is_prerelease or not version.is_exact:
        return
    if not any(pin and admits(pin, version) for pin in pins):
        raise NotApplicable("the engine asks for no such torch, whose number may be shortened")
    yield Fault(
        f"torch {version} is a release, and {repository} brings a build of its own: {rows[0].text}",
        evidence=(Evidence(f"torch {version}", reading.at), Evidence(f"image {repository}")),
        remedies=(Remedy(rows[0].remedy), Remedy("or start from an image made for the engine")),
        sources=rows[0].source,
    )


def _brings_own(pins: set[str]) -> bool:
    """Every release that it may be asks for exactly one torch, which is none of an image's."""
    return bool(pins) and all(_EXACT.fullmatch(pin) for pin in pins)


def _is_of_image(case: Case) -> bool:
    """The engine may be part of the image, or was compiled against the torch that is there."""
    work = case.workload
    is_stated = work is not None and case.scope.package(work.engine) is not None
    return not is_stated or (work is not None and work.building.is_known)


def _will_be_replaced(case: Case, matrix: Matrix, claim: Claim, pin: str) -> Fault:
    repository = case.scope.image.ref.partition("@")[0].partition(":")[0]
    found = engine(case, matrix)
    return Fault(
        f"{found.label} asks for torch{pin}, and {repository} brings a build of its own: "
        f"{claim.text}",
        evidence=(found.evidence, Evidence(f"image {repository}")),
        remedies=(Remedy(claim.remedy), Remedy("or start from an image made for the engine")),
        sources=claim.source,
    )


def _is_published(package: Package) -> bool:
    """A final release, of which the label names no build of an image."""
    version = package.version
    return version is not None and version.is_exact and not version.is_prerelease


def _beside_alien(package: Package, claim: Claim, repository: str) -> Fault:
    told = f"{package.name} {package.version}"
    return Fault(
        f"{told} is compiled against a released torch, and {repository} brings a build of its "
        "own: one of the two does not load beside the other",
        evidence=(Evidence(told, package.location), Evidence(f"image {repository}")),
        remedies=(
            Remedy("build it in the image against the torch that is there"),
            Remedy("or start from an image without a torch of its own"),
        ),
        sources=claim.source,
    )


# Compiled against one torch, from the package index against a released one.
_COMPANIONS = ("torchaudio", "torchvision", "torchcodec", "torchtext", "xformers")
_EXACT = re.compile(r"==\d+(?:\.\d+){1,2}(?:\+\w+)?")

RULES: tuple[Rule, ...] = (torch_of_image_replaced,)
