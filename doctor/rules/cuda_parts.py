"""Does every part of a build reach the cards: components whose code is only PTX that is too new."""

from __future__ import annotations

from collections.abc import Iterator

from doctor.facts import CodeTarget, Coverage, Device, Kernels, Missing, MissingFact, Version
from doctor.findings import Evidence, Remedy
from doctor.matrix import Matrix
from doctor.matrix.model import Release
from doctor.rules import cards
from doctor.rules.builds import as_cuda, cuda_of_label
from doctor.rules.cuda_level import level, two_parts
from doctor.rules.driver_choice import install_branch
from doctor.rules.engine import Case, Fault, NotApplicable, Rule, Severity, rule
from doctor.rules.software import Software, engine

Components = dict[str, tuple[str, ...]]
# A component of attention is used unless another back end is asked for.
_ATTENTION = ("flash_attn", "flash-attn")


@rule("CUD104", cause="ptx-too-new", severity=Severity.ERROR)
def component_ptx_newer_than_driver(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """A component of the engine reaches the card only by PTX that the driver cannot compile.

    What: the code of each component of the engine's build (the libraries of one folder),
        by measurement of that release or of the equal ones around it, against the card
        and the newest PTX that the driver compiles.
    Why: minor-version compatibility covers machine code only. The engine comes up, and
        the first call into that component fails with CUDA 222. FlashAttention of vLLM has
        machine code for 8.x and 9.0, and PTX for what is newer.
    How to fix: another attention back end, a build made by a toolkit no newer than the
        driver, or a newer driver.
    Silent when: the component has machine code for the card, has no code for it at all
        (then the engine takes another), or the release was not measured. A warning unless
        its back end is asked for by name.
    Sources: fat binaries of the wheels; CUDA Compatibility guide, limits of minor-version
        compatibility; vllm-project/vllm issue 31700.
    """
    case.need_vendor("nvidia")
    found = engine(case, matrix)
    components = _components(matrix, found)
    if not components:
        raise NotApplicable(f"the components of {found.label} were not measured")
    asked = _backend(case)
    for name, targets in components.items():
        is_attention = any(word in name for word in _ATTENTION)
        if asked and is_attention and "flash_attn" not in asked:
            continue
        kernels = Kernels(tuple(map(CodeTarget.parse, targets)))
        for device in cards.distinct(case.nvidia_devices):
            fault = _fault(case, matrix, found, (name, kernels), device)
            if fault is not None:
                yield fault if asked else _unless_another(fault, name)


def _backend(case: Case) -> str:
    arguments = (case.workload.args.value or {}) if case.workload else {}
    return str(arguments.get("attention_backend", "")).lower()


def _unless_another(fault: Fault, name: str) -> Fault:
    from dataclasses import replace

    return replace(
        fault, message=f"{fault.message}; it fails where {name} is used", severity=Severity.WARNING
    )


def _components(matrix: Matrix, found: Software) -> Components:
    """Code by component: of the release, else what the measured ones around it agree on."""
    if found.version is None or len(found.rows) != 1:
        return {}
    own = _grouped(found.rows[0])
    return own or _agreed(*_neighbours(matrix, found))


def _grouped(row: Release) -> Components:
    """Code of the libraries of each folder; () for a release that was not measured."""
    groups: dict[str, list[str]] = {}
    for library, targets in row.targets.items():
        folder = library.rpartition("/")[0].rpartition("/")[2]
        if folder:
            groups.setdefault(folder, []).extend(targets)
    return {name: tuple(dict.fromkeys(filter(_is_gpu, found))) for name, found in groups.items()}


def _is_gpu(target: str) -> bool:
    return target.startswith(("sm_", "compute_"))


def _neighbours(matrix: Matrix, found: Software) -> tuple[Components, Components]:
    """The measured releases next above and next below."""
    pairs = [(v, row) for row, v in matrix.versions(found.name) if row.targets]
    version = found.version
    above = [p for p in pairs if version is not None and p[0].low > version.low]
    below = [p for p in pairs if version is not None and p[0].low < version.low]
    if not above or not below:
        return {}, {}
    upper = min(above, key=lambda pair: pair[0].low)[1]
    lower = max(below, key=lambda pair: pair[0].low)[1]
    return _grouped(upper), _grouped(lower)


def _agreed(one: Components, other: Components) -> Components:
    return {name: t for name, t in one.items() if set(t) == set(other.get(name, ()))}


def _fault(
    case: Case, matrix: Matrix, found: Software, component: tuple[str, Kernels], device: Device
) -> Fault | None:
    name, kernels = component
    card = cards.need_capability(device, matrix)
    if kernels.coverage(card, matrix.tegra) is not Coverage.PTX:
        return None
    needed = _isa(case, matrix, found)
    offered = level(case, matrix)
    if needed is None or offered is None or not offered.cuda.is_exact:
        case.facts.nvidia.driver.known("nvidia.driver")
        raise MissingFact(f"PTX version of {name}", Missing.NOT_STATED)
    ceiling = matrix.compiler(two_parts(offered.cuda))
    if ceiling is None or Version(ceiling.ptx_isa).older_than(needed) is not True:
        return None
    held = " ".join(str(target) for target in kernels.targets)
    return Fault(
        message=f"{name} of {found.label} reaches {cards.label(device, matrix)} ({card}) only by "
        f"PTX {needed}, and a driver with CUDA {offered.cuda} compiles PTX up to "
        f"{ceiling.ptx_isa}",
        evidence=(Evidence(f"{name} holds {held}", found.at), offered.evidence,
                  cards.evidence(device, matrix)),
        remedies=(
            Remedy("use an attention back end that compiles at run time, such as Triton's "
                   "(--attention-backend TRITON_ATTN)"),
            *install_branch(case, matrix, _cuda(case, found)),
        ),
        sources=(*found.rows[0].source[:1], *ceiling.source, *offered.sources),
    )  # fmt: skip


def _cuda(case: Case, found: Software) -> Version | None:
    """CUDA that the engine was compiled with: of its label, of its image, else of the release."""
    label = case.scope.variants.get(found.name, "") or (
        found.version.local if found.version else ""
    )
    stated = cuda_of_label(label)
    return stated or case.scope.image.cuda.value or as_cuda(found.rows[0].cuda or "")


def _isa(case: Case, matrix: Matrix, found: Software) -> Version | None:
    cuda = _cuda(case, found)
    row = matrix.compiler(two_parts(cuda)) if cuda is not None else None
    return Version(row.ptx_isa) if row else None


RULES: tuple[Rule, ...] = (component_ptx_newer_than_driver,)
