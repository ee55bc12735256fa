"""Torch and its companions come from different indexes: their builds do not fit each other."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from doctor.facts import Package, Version
from doctor.findings import Evidence, Remedy
from doctor.matrix import Matrix
from doctor.rules.builds import as_cuda, row_cuda
from doctor.rules.engine import Case, Fault, NotApplicable, Rule, Severity, rule
from doctor.rules.framework_pins import TRIO, label_kind
from doctor.rules.settings import covering
from doctor.rules.software import software, torch_version


@rule("FRM203", cause="torch-pin-mismatch", severity=Severity.ERROR)
def companion_of_other_variant(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """Torch and a companion come from different indexes: one for CPU, one for CUDA or ROCm.

    What: the local labels (+cpu, +cu128, +rocm) of torch, torchvision and torchaudio.
    Why: version numbers match, so `pip check` is content, but the compiled operators do
        not load into another variant of libtorch.
    How to fix: install all of them from one index.
    Silent when: no label tells the build of torch, or both are for the same CUDA major and the
        companion looks at no more than that. A companion without a label is of the default
        index: a warning if that is for another CUDA.
    Sources: measured: torch +cpu beside torchvision +cu130 dies with "operator
        torchvision::nms does not exist"; the PyTorch index layout.
    """
    torch = torch_version(case)
    if torch is None:
        case.scope.packages.known("packages")
        raise NotApplicable("no torch in this scope")
    kind = label_kind(torch)
    for name in TRIO[1:]:
        package = case.scope.package(name)
        if package is None or package.version is None or not kind:
            continue
        other, is_told = label_kind(package.version), True
        if not other:
            other, is_told = _default_kind(case, matrix, torch, package.version), False
        if other and kind != other:
            yield _two_builds(torch, package, (kind, other), is_told)
        elif other and _are_of_two_minors(matrix, package, torch):
            yield _two_builds(torch, package, (torch.local, _local(package)), True)


def _two_builds(torch: Version, package: Package, kinds: tuple[str, str], is_told: bool) -> Fault:
    wanted = shlex.quote(f"torch=={torch.public}")
    return Fault(
        f"torch {torch} and {package.name} {package.version} are different builds "
        f"({', '.join(kinds)}{'' if is_told else ' by default'})",
        evidence=(
            Evidence(f"torch {torch}"),
            Evidence(f"{package.name} {package.version}", package.location),
        ),
        remedies=(
            Remedy(
                "install both from the index of one build",
                (
                    f"uv pip install --reinstall {wanted} {package.name} "
                    f"--index-url https://download.pytorch.org/whl/{torch.local}",
                ),
                role="python_env",
            ),
        ),
        severity=None if is_told else Severity.WARNING,
    )


def _default_kind(case: Case, matrix: Matrix, torch: Version, own: Version) -> str:
    """The CUDA of a companion without a label beside a labelled torch: of the default index.

    Companions are published with the torch of their release, for the same CUDA.
    """
    system = case.facts.host.os.value
    is_elsewhere = system is not None and system.id in ("windows", "macos")
    if is_elsewhere or not torch.local.startswith("cu") or own.is_prerelease or own.local:
        return ""
    found = software(matrix, "torch", Version(torch.public))
    cuda = {as_cuda(row_cuda(row, case.facts.host.arch.value) or "") for row in found.rows}
    majors = {version.major for version in cuda if version is not None}
    return f"cu{majors.pop()}" if len(majors) == 1 and found.rows and not found.beyond else ""


def _local(package: Package) -> str:
    return package.version.local if package.version is not None else ""


def _are_of_two_minors(matrix: Matrix, package: Package, torch: Version) -> bool:
    """Of one CUDA major and two minors, where that release of the companion wants one CUDA."""
    if not torch.local.startswith("cu") or torch.local == _local(package):
        return False
    found = software(matrix, package.name, package.version, package.location)
    matches = covering(matrix, found, "pairing")
    return any(m.claim.key == "cuda" and m.claim.value == "same" for m in matches)


RULES: tuple[Rule, ...] = (companion_of_other_variant,)
