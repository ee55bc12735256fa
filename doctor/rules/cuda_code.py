"""Does the GPU code in the builds fit the cards: machine code, PTX, and its ISA."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import chain

from doctor.facts import (
    ComputeCapability,
    Coverage,
    Device,
    Missing,
    MissingFact,
    Version,
)
from doctor.findings import Evidence, Remedy
from doctor.matrix import Matrix, capability_matches
from doctor.matrix.model import Release, Variant
from doctor.rules import cards
from doctor.rules.builds import holds_no_cuda
from doctor.rules.code_holders import Holder
from doctor.rules.cuda_level import level, two_parts
from doctor.rules.decide import each, need_contents
from doctor.rules.driver_choice import install_branch
from doctor.rules.engine import Case, Fault, NotApplicable, Rule, Severity, rule
from doctor.rules.engine_support import is_below_minimum
from doctor.rules.gpu_code import holders
from doctor.rules.installing import install_build
from doctor.rules.software import software
from doctor.rules.source_tree import next_release


@rule("CUD101", cause="cc-not-in-binary", severity=Severity.ERROR, gate=True)
def no_code_for_card(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """An installed build holds neither machine code nor PTX that a card can run.

    What: the compute capability of each card against the code in the libraries on disk;
        where they were not read, against the targets declared or known of that build.
    Why: machine code runs on the same major with an equal or higher minor, code marked
        "a" only on exactly its capability, "f" within its family, PTX only upwards;
        Jetson parts do not share code with others. With nothing that fits, the first
        kernel fails with CUDA 209 "no kernel image", after CUDA itself came up well.
    How to fix: install the build of the same version that holds code for the card; else
        a version that does, or compile for the card's capability.
    Silent when: part of the code fits. That some kernels lack a target is normal, and so
        is running code of a lower minor.
    Sources: CUDA C++ Programming Guide, compute capabilities; code measured in wheels,
        build scripts of the projects (rows in the matrix).
    """
    found = _needed(case, matrix)
    checks = [
        partial(_uncovered, case, matrix, h, d)
        for d in cards.distinct(case.nvidia_devices)
        for h in found
        if h.is_core or not _is_told(matrix, found, h, d)
    ]
    yield from each(checks)


def _needed(case: Case, matrix: Matrix) -> tuple[Holder, ...]:
    need_contents(case)
    case.need_vendor("nvidia")
    found = holders(case, matrix)
    if not found:
        if holds_no_cuda(case) or case.scope.binaries.is_known:
            raise NotApplicable("no build with CUDA code in this scope")
        raise MissingFact("GPU code of the installed build", Missing.NOT_STATED)
    return found


def _is_told(matrix: Matrix, found: tuple[Holder, ...], holder: Holder, device: Device) -> bool:
    """Tell whether any build of the package lacks the card: then the likely one does too."""
    card = cards.capability(device, matrix).value
    same = [h for h in found if h.name == holder.name and h.is_core]
    return card is not None and any(_lacks(matrix, h, card) for h in same)


def _lacks(matrix: Matrix, holder: Holder, card: ComputeCapability) -> bool:
    total = sum(k.count for k in holder.kernels)
    return total > 0 and holder.count(Coverage.NONE, card, matrix.tegra) >= total


def _uncovered(case: Case, matrix: Matrix, holder: Holder, device: Device) -> Iterator[Fault]:
    card = cards.need_capability(device, matrix)
    if not _lacks(matrix, holder, card):
        return
    if holder.sources and _is_refused(case, matrix, card):
        return  # that a published build leaves out what its engine refuses is no fault of its own
    if holder.is_assumed and card in matrix.tegra:
        # Jetson indexes serve builds of their own under the same version.
        raise MissingFact(f"GPU code of the installed {holder.name}", Missing.NOT_STATED)
    yield Fault(
        message=f"{holder.name} holds no code for {cards.label(device, matrix)} "
        f"({card}, {card.sm}); it has {holder.targets}",
        evidence=(cards.evidence(device, matrix), holder.evidence),
        remedies=_builds_for(case, matrix, holder, card),
        sources=holder.sources,
        severity=_severity(case, matrix, holder, card),
    )


def _is_refused(case: Case, matrix: Matrix, card: ComputeCapability) -> bool:
    try:
        return is_below_minimum(case, matrix, card)
    except NotApplicable:
        return False


def _severity(
    case: Case, matrix: Matrix, holder: Holder, card: ComputeCapability
) -> Severity | None:
    """What is optional can be missed; of a version with several builds one is only assumed.

    Beside a nightly torch the rest is often built locally.
    """
    torch = case.scope.torch.value
    is_other = torch is not None and torch.version.is_prerelease
    is_other = is_other or _is_source_tree(matrix, holder, case)
    is_other = is_other or _has_other_wheels(matrix, holder, card)
    is_other = is_other or _is_only_told(case, matrix, holder, card)
    return Severity.WARNING if (holder.is_assumed and is_other) or not holder.is_core else None


def _has_other_wheels(matrix: Matrix, holder: Holder, card: ComputeCapability) -> bool:
    """Tell whether the matrix says only with a warning that this release lacks the card."""
    claims = matrix.claims(holder.name, "capability-unsupported", holder.version)
    return any(
        match.claim.data.get("level") == "warning"
        and capability_matches(match.claim.when.get("capability", ""), card)
        for match in claims
    )


def _is_only_told(case: Case, matrix: Matrix, holder: Holder, card: ComputeCapability) -> bool:
    """Tell whether a person named the version alone, and an index has a build of it for the card.

    Who copies a version leaves its label out; who has such a card mostly knows that index.
    """
    name = matrix.engine_packages.get(holder.name, holder.name)
    public = holder.version.public if holder.version else ""
    others = (release.version for release, _, _ in matrix.builds_for(name, card))
    return case.scope.packages.at == "packages" and public in others


def _is_source_tree(matrix: Matrix, holder: Holder, case: Case) -> bool:
    found = software(matrix, holder.name, holder.version)
    return next_release(case, matrix, found) is not None


def _builds_for(
    case: Case, matrix: Matrix, holder: Holder, card: ComputeCapability
) -> tuple[Remedy, ...]:
    """The newest build with code for the card that the driver can run, and compiling."""
    offered = level(case, matrix)
    choice = _best(matrix, holder, card, offered.cuda if offered else None)
    compile_it = Remedy(
        action=f"compile {holder.name} for this card (compute capability {card})",
        commands=(f"export TORCH_CUDA_ARCH_LIST={card}",),
        risk="takes long, and needs a CUDA toolkit that knows the card",
    )
    if choice is None:
        return (compile_it,)
    install = install_build(case, matrix, holder.name, choice, f"which holds code for {card}")
    return (install, compile_it)


def _best(
    matrix: Matrix, holder: Holder, card: ComputeCapability, offered: Version | None
) -> tuple[Release, Variant] | None:
    """A fitting build of the same version, which keeps pins whole; else of the newest."""
    name = matrix.engine_packages.get(holder.name, holder.name)
    builds = matrix.builds_for(name, card)
    public = holder.version.public if holder.version else ""
    ordered = chain((b for b in builds if b[0].version == public), builds)
    most = (offered.major or 0) if offered is not None else None
    fitting = ((r, v) for r, v, cuda in ordered if most is None or (cuda.major or 0) <= most)
    return next(fitting, None)


@rule("CUD102", cause="ptx-too-new", severity=Severity.ERROR)
def ptx_newer_than_driver(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """Only PTX fits the card, and its ISA is newer than the driver can compile.

    What: for builds without machine code for the card, the PTX ISA version against the
        newest that the driver's compiler knows, which is that of its CUDA version.
    Why: minor-version compatibility covers machine code only. PTX of a newer toolkit
        fails with CUDA 222 "the provided PTX was compiled with an unsupported toolchain".
    How to fix: a build with machine code for the card, or one made by a toolkit no newer
        than the driver; else a newer driver.
    Silent when: machine code fits the card, or the PTX is old enough.
    Sources: PTX ISA versions measured from ptxas of each toolkit (rows in the matrix);
        CUDA Compatibility guide, minor-version compatibility, limits.
    """
    found = _needed(case, matrix)
    checks = [
        partial(_ptx_too_new, case, matrix, h, d)
        for d in cards.distinct(case.nvidia_devices)
        for h in found
        if h.is_core
    ]
    yield from each(checks)


def _ptx_too_new(case: Case, matrix: Matrix, holder: Holder, device: Device) -> Iterator[Fault]:
    card = cards.need_capability(device, matrix)
    if holder.count(Coverage.SASS, card, matrix.tegra):
        return
    needed = _lowest_isa(holder, card, matrix)
    if needed is None:
        return
    offered = level(case, matrix)
    if offered is None:
        case.facts.nvidia.driver.known("nvidia.driver")
        return
    compiler = matrix.compiler(two_parts(offered.cuda)) if offered.cuda.is_exact else None
    if compiler is None or Version(compiler.ptx_isa).older_than(needed) is not True:
        return
    yield Fault(
        message=f"{holder.name} has only PTX {needed} for {cards.label(device, matrix)} ({card}), "
        f"and a driver with CUDA {offered.cuda} compiles PTX up to {compiler.ptx_isa}",
        evidence=(offered.evidence, holder.evidence, cards.evidence(device, matrix)),
        remedies=(
            *_builds_for(case, matrix, holder, card),
            *install_branch(case, matrix, holder.cuda),
        ),
        sources=(*compiler.source, *offered.sources),
    )


def _lowest_isa(holder: Holder, card: ComputeCapability, matrix: Matrix) -> Version | None:
    """ISA of the oldest PTX that fits the card; None without PTX, or if its ISA is not known."""
    fitting = holder.usable_ptx(card, matrix.tegra)
    if not fitting:
        return None
    stated = [target.isa for target in fitting if target.isa is not None]
    if stated:
        return Version(".".join(map(str, min(stated))))
    compiler = matrix.compiler(two_parts(holder.cuda)) if holder.cuda else None
    return Version(compiler.ptx_isa) if compiler else None


@rule("CUD103", cause="cc-not-in-binary", severity=Severity.INFO)
def runs_by_jit(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """A build has no machine code for the card and compiles PTX at the first start.

    What: builds whose code reaches the card only as PTX that the driver can compile.
    Why: the first start is slow, needs a writable compute cache, and performance may lag
        behind code made for the card.
    How to fix: nothing must be done; a build with machine code for the card starts faster.
    Silent when: machine code fits the card. A warning where the PTX is older than the machine
        code: it was not made for newer cards, and PyTorch says that it is not compatible.
    Sources: CUDA C++ Programming Guide, just-in-time compilation.
    """
    for device in cards.distinct(case.nvidia_devices) if _needed(case, matrix) else ():
        card = cards.need_capability(device, matrix)
        for holder in holders(case, matrix):
            has_machine_code = holder.count(Coverage.SASS, card, matrix.tegra)
            if holder.is_core and not has_machine_code and holder.usable_ptx(card, matrix.tegra):
                yield Fault(
                    message=f"{holder.name} reaches {cards.label(device, matrix)} ({card}) only by "
                    "compiling PTX at the first start",
                    evidence=(holder.evidence, Evidence(f"{card.sm} is not among its targets")),
                    sources=holder.sources,
                    severity=Severity.WARNING if _is_relic(holder, card) else None,
                )


def _is_relic(holder: Holder, card: ComputeCapability) -> bool:
    """Tell whether its PTX is for less than its machine code, which ends a major before the card.

    A build that is meant to run on newer cards carries the PTX of its newest target.
    """
    targets = [target for kernels in holder.kernels for target in kernels.targets]
    ptx = [t.capability for t in targets if t.kind is Coverage.PTX]
    machine = [t.capability for t in targets if t.kind is Coverage.SASS]
    return bool(ptx and machine) and max(ptx) < max(machine) and max(machine).major < card.major


RULES: tuple[Rule, ...] = (no_code_for_card, ptx_newer_than_driver, runs_by_jit)
