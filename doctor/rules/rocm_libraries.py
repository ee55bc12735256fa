"""Do ROCm's own libraries, which programs load from the system, hold code for the card."""

from __future__ import annotations

from collections.abc import Iterator

from doctor.facts import Missing, MissingFact
from doctor.findings import Evidence, Remedy
from doctor.matrix import Matrix
from doctor.matrix.model import Claim
from doctor.rules import amd_cards
from doctor.rules.engine import Case, Fault, NotApplicable, Rule, Severity, rule
from doctor.rules.model_facts import environment
from doctor.rules.software import engine

_OVERRIDE = "HSA_OVERRIDE_GFX_VERSION"


@rule("CUD908", cause="rocm-mismatch", severity=Severity.WARNING)
def rocblas_without_target(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """AMD's rocBLAS of this ROCm release holds no code for the card.

    What: the gfx target of each card against those that rocBLAS of the ROCm release is built
        for, where the program loads it from the system.
    Why: matrix products end in "Cannot read TensileLibrary.dat: No such file or directory for
        GPU arch"; what needs none of them, as some models and sizes, runs.
    How to fix: a ROCm release whose list has the target, rocBLAS built for it, or the override
        to a close relative that is listed, which is not supported.
    Silent when: the target is listed, the override names one that is, the program brings its
        own libraries, or the distribution builds ROCm by itself.
    Sources: target lists of rocBLAS by ROCm release (rows in the matrix).
    """
    devices = case.need_vendor("amd")
    found = engine(case, matrix)
    if amd_cards.held(case, matrix, found, False).targets:
        raise NotApplicable("the targets of the build are known: another rule")
    claim = _targets(case, matrix, found.name)
    listed = claim.value.split("|")
    seen = [(device, amd_cards.target(device, matrix)) for device in devices]
    if any(fact.fact in listed for _, fact in seen) or _posed(case) in listed:
        return
    device, fact = seen[0]
    rocm = case.facts.rocm.version
    yield Fault(
        f"rocBLAS of ROCm {rocm.value} is not built for {fact.fact}",
        evidence=(fact, Evidence(f"ROCm {rocm.value}", rocm.at)),
        remedies=(
            Remedy("a ROCm release whose rocBLAS has the target, or rocBLAS built for it"),
            *_relative(matrix, fact.fact, listed),
        ),
        sources=claim.source,
        subject=device.id,
    )


def _targets(case: Case, matrix: Matrix, name: str) -> Claim:
    """The list of the ROCm release that is here; raises where none counts for the program."""
    rows = [m.claim for m in matrix.claims("rocm", "rocblas-gfx", None)]
    if not any(name in row.data.get("programs", ()) for row in rows):
        raise NotApplicable(f"{name} is not known to load rocBLAS from the system")
    variant = case.scope.variants.get(name, "")
    if "vulkan" in variant or variant == "cpu":
        raise NotApplicable(f"a build for {variant}")
    system = case.facts.host.os.value
    rocm = case.facts.rocm.version.known("rocm.version")
    claims = [m.claim for m in matrix.claims("rocm", "rocblas-gfx", rocm)]
    if not claims:
        raise MissingFact(f"targets of rocBLAS in ROCm {rocm}", Missing.NOT_STATED)
    if system is not None and system.id in claims[0].data.get("own_builds", ()):
        raise NotApplicable(f"{system.id} builds ROCm for targets of its own choice")
    return claims[0]


def _posed(case: Case) -> str:
    value = environment(case).get(_OVERRIDE, "")
    return amd_cards.override(value) if value else ""


def _relative(matrix: Matrix, gfx: str, listed: list[str]) -> tuple[Remedy, ...]:
    """The override to a listed target whose code is known to run on this one."""
    rows = [m.claim for m in matrix.claims("rocm", "gfx-pose")]
    near = (row.key for row in rows if gfx in row.value.split("|") and row.key in listed)
    return tuple(Remedy(f"or let it pose as {name} by {_OVERRIDE}") for name in near)


RULES: tuple[Rule, ...] = (rocblas_without_target,)
