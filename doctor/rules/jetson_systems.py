"""Systems and Pythons on a Jetson that no JetPack of its module has."""

from __future__ import annotations

from collections.abc import Iterator

from doctor.facts import Device, Version
from doctor.findings import Evidence, Remedy
from doctor.matrix import Matrix
from doctor.matrix.model import Claim
from doctor.rules import cards
from doctor.rules.driver_state import DRIVER_DOMAIN
from doctor.rules.engine import Case, Fault, NotApplicable, Rule, Severity, rule
from doctor.rules.software import installed

_INSIDE = ("container", "image")


@rule("HST202", cause="jetson-specific", severity=Severity.WARNING)
def system_of_no_jetpack(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """The Ubuntu on a Jetson is of no JetPack that there is for its module.

    What: the version of Ubuntu against those of the JetPacks for the module.
    Why: driver, CUDA and cuDNN of a Jetson come with JetPack; images of a newer Ubuntu that
        others make, and systems upgraded in place, lack them or have those of another release.
    How to fix: flash the JetPack of the module, or run a container made for its L4T.
    Silent when: the module or the system is not known, the scope is a container, or the system
        is that of one of its JetPacks.
    Sources: NVIDIA JetPack archive (claims in the matrix).
    """
    device, systems = _module(case, matrix)
    system = case.facts.host.os.known("host.os")
    version = Version.maybe(system.version)
    if system.id != "ubuntu" or version is None or len(version.release) < 2:
        raise NotApplicable("no Ubuntu of a known version")
    own = "{}.{:02}".format(*version.release[:2])
    if own not in [claim.value for claim in systems]:
        what = Evidence(f"Ubuntu {own}", case.facts.host.os.at)
        yield _other(matrix, device, systems, what)


@rule("HST203", cause="jetson-specific", severity=Severity.WARNING)
def python_of_no_jetpack(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """A plain torch on a Jetson is under a Python for which NVIDIA makes no wheel for the module.

    What: the Python beside a torch without a label against those of NVIDIA's wheels for the
        JetPacks of the module.
    Why: what pip finds for another Python is the wheel of the general index, which has no CUDA
        for a Jetson: torch.cuda.is_available() is False.
    How to fix: the Python of the JetPack and NVIDIA's wheel, or a container for its L4T.
    Silent when: torch carries a label or is a pre-release, or the Python is one of those.
    Sources: NVIDIA, PyTorch for Jetson (claims in the matrix).
    """
    device, systems = _module(case, matrix)
    torch = installed(case, matrix, "torch")
    version = torch.version if torch is not None else None
    if version is None or version.local or version.is_prerelease or "torch" in case.scope.variants:
        raise NotApplicable("no torch without a label")
    python = case.scope.python.known("python")
    minor = ".".join(map(str, python.version.release[:2]))
    offered = [text for claim in systems for text in str(claim.data["python"]).split("|")]
    if minor not in offered:
        what = Evidence(f"Python {minor} beside torch {version}", case.scope.python.at)
        yield _other(matrix, device, systems, what)


def _module(case: Case, matrix: Matrix) -> tuple[Device, list[Claim]]:
    """The module, and the systems of its JetPacks."""
    tegra = [d for d in case.nvidia_devices if cards.is_tegra(d, matrix)]
    if not tegra or case.scope.kind in _INSIDE or case.scope.image.ref:
        raise NotApplicable("not a Jetson itself")
    module = str(cards.need_capability(tegra[0], matrix))
    packs = {
        pack
        for match in matrix.claims(DRIVER_DOMAIN, "jetson-module", key=module)
        for pack in match.claim.value.split("|")
    }
    claims = [m.claim for m in matrix.claims(DRIVER_DOMAIN, "jetson-system")]
    found = [claim for claim in claims if claim.key in packs]
    if not found:
        raise NotApplicable("no JetPack is listed for the module")
    return tegra[0], found


def _other(matrix: Matrix, device: Device, systems: list[Claim], what: Evidence) -> Fault:
    own = ", ".join(
        f"JetPack {claim.key} (Ubuntu {claim.value}, Python "
        f"{str(claim.data['python']).replace('|', ' or ')})"
        for claim in systems
    )
    return Fault(
        f"{what.fact} on {cards.label(device, matrix)}: its JetPacks are {own}",
        evidence=(what, cards.evidence(device, matrix)),
        remedies=(
            Remedy("use the system and the Python of its JetPack, with NVIDIA's wheels for it"),
            Remedy("or a container made for its L4T (jetson-containers)"),
        ),
        sources=tuple(dict.fromkeys(source for claim in systems for source in claim.source)),
    )


RULES: tuple[Rule, ...] = (system_of_no_jetpack, python_of_no_jetpack)
