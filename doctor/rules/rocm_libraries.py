"""ROCm of the system: libraries that programs load from it, and the compiler that builds take."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.facts import Missing, MissingFact
from doctor.findings import Evidence, Remedy
from doctor.matrix import Matrix
from doctor.matrix.model import Claim
from doctor.rules import amd_cards
from doctor.rules.engine import Case, Fault, NotApplicable, Rule, Severity, rule
from doctor.rules.model_facts import environment
from doctor.rules.software import engine, engine_name, torch_version

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
    claims = _targets(case, matrix, found.name)
    seen = [(device, amd_cards.target(device, matrix)) for device in devices]
    runs = {fact.fact for _, fact in seen} | {_posed(case)}
    lacking = [claim for claim in claims if not runs & set(claim.value.split("|"))]
    if 2 * len(lacking) <= len(claims):
        return
    device, fact = seen[0]
    rocm = case.facts.rocm.version
    which = f"of ROCm {rocm.value}" if rocm.value else "of most ROCm releases"
    yield Fault(
        f"rocBLAS {which} is not built for {fact.fact}",
        evidence=(fact, Evidence(f"ROCm {rocm.value or 'of any release'}", rocm.at)),
        remedies=(
            Remedy("a ROCm release whose rocBLAS has the target, or rocBLAS built for it"),
            *_relative(matrix, fact.fact, lacking[0].value.split("|")),
        ),
        sources=lacking[0].source,
        subject=device.id,
    )


def _targets(case: Case, matrix: Matrix, name: str) -> list[Claim]:
    """The list of the ROCm release that is here; those of all where the library itself is meant.

    Raises where none counts for the program.
    """
    rows = [m.claim for m in matrix.claims("rocm", "rocblas-gfx", None)]
    if not any(name in row.data.get("programs", ()) for row in rows):
        raise NotApplicable(f"{name} is not known to load rocBLAS from the system")
    variant = case.scope.variants.get(name, "")
    if "vulkan" in variant or variant == "cpu":
        raise NotApplicable(f"a build for {variant}")
    system = case.facts.host.os.value
    if system is not None and system.id in rows[0].data.get("own_builds", ()):
        raise NotApplicable(f"{system.id} builds ROCm for targets of its own choice")
    if not case.facts.rocm.version.is_known and name in _ITSELF:
        return rows
    rocm = case.facts.rocm.version.known("rocm.version")
    line = str(rocm).removesuffix(".*")  # 6.4.* is not what ends before 6.4
    claims = [m.claim for m in matrix.claims("rocm", "rocblas-gfx", rocm)]
    claims = [claim for claim in claims if str(claim.until) != line]
    if not claims:
        raise MissingFact(f"targets of rocBLAS in ROCm {rocm}", Missing.NOT_STATED)
    return claims[:1]


_ITSELF = ("rocm", "rocblas", "hipblas", "tensile")


@rule("CUD909", cause="build-toolchain-missing", severity=Severity.WARNING)
def flash_attention_built_for_rocm(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """FlashAttention is to be installed beside a torch for ROCm, and no ROCm is known to be here.

    What: the label of torch, the engine, and whether a ROCm release is stated.
    Why: there is no wheel of it for ROCm. Its build takes ROCm's compiler, which a torch for ROCm
        does not bring; without one it looks for nvcc.
    How to fix: install ROCm with its compiler, or a container of AMD; or do without and use the
        attention of torch.
    Silent when: ROCm is stated, it runs from an image, or its Triton back end is chosen, which
        compiles nothing at install.
    Sources: README of flash-attention, AMD ROCm support.
    """
    if engine_name(case, matrix) != _FLASH:
        raise NotApplicable("the engine is another")
    torch = torch_version(case)
    if torch is None or not torch.local.startswith("rocm"):
        raise NotApplicable("torch is not known to be one for ROCm")
    inside = case.scope.image.ref or case.scope.kind in ("container", "image")
    if inside or case.facts.rocm.version.is_known or _TRITON in environment(case):
        return
    yield Fault(
        f"flash-attn has no wheel for torch {torch}: its build needs ROCm's compiler",
        evidence=(Evidence(f"torch {torch}", case.scope.torch.at),),
        remedies=(
            Remedy("install ROCm with its compiler, or use a container of AMD"),
            Remedy("or do without: torch has an attention of its own (SDPA)"),
        ),
        sources=("https://github.com/Dao-AILab/flash-attention#amd-rocm-support",),
    )


_FLASH, _TRITON = "flash-attn", "FLASH_ATTENTION_TRITON_AMD_ENABLE"


def _posed(case: Case) -> str:
    value = environment(case).get(_OVERRIDE, "")
    return amd_cards.override(value) if value else ""


def _relative(matrix: Matrix, gfx: str, listed: list[str]) -> tuple[Remedy, ...]:
    """The override to a listed target whose code is known to run on this one."""
    rows = [m.claim for m in matrix.claims("rocm", "gfx-pose")]
    near = (row.key for row in rows if gfx in row.value.split("|") and row.key in listed)
    return tuple(Remedy(f"or let it pose as {name} by {_OVERRIDE}") for name in near)


_WORKS_POSED = re.compile(
    r"\b(?:works?|runs?|starts?|fine|ok(?:ay)?|solved|fixed|helps?|needs?|must|only|unless|without)\b"
    r"[^;\n]{0,60}\bHSA_OVERRIDE_GFX_VERSION\b(?! is not set)|\bHSA_OVERRIDE_GFX_VERSION\b"
    r"[^;\n]{0,40}\b(?:makes it|it works|it runs|works|helps|solves|fixes)\b",
    re.IGNORECASE,
)


@rule("CUD910", cause="rocm-mismatch", severity=Severity.WARNING)
def runs_only_when_posed(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """It is said to run once the card poses as another one, so the build has no code for it.

    What: notes that say that it works with HSA_OVERRIDE_GFX_VERSION, where that is not set.
    Why: the override changes nothing but the target for which code is looked up.
    How to fix: a build, or a ROCm release, that has the target; until then the override.
    Silent when: the variable is set, or no note says so.
    Sources: ROCm runtime environment variables.
    """
    if _OVERRIDE in environment(case):
        raise NotApplicable("the override is set: another rule judges it")
    if any(device.vendor == "nvidia" for device in case.devices):
        raise NotApplicable("not an AMD host")
    if not any(_OVERRIDE in note for note in case.facts.notes):
        raise NotApplicable("no note speaks of the override")
    said = next(filter(None, map(_WORKS_POSED.search, case.facts.notes)), None)
    if said is None:
        return
    yield Fault(
        "it runs when the card poses as another target: no code here is for its own",
        evidence=(Evidence(said[0], "notes"),),
        remedies=(Remedy("take a build or a ROCm release that has the target of the card"),),
        sources=("https://rocm.docs.amd.com/projects/HIP/en/latest/reference/env_variables.html",),
    )


RULES: tuple[Rule, ...] = (
    rocblas_without_target,
    flash_attention_built_for_rocm,
    runs_only_when_posed,
)
