"""What a plain install of the engine brings with it: the torch of its pins."""

from __future__ import annotations

from doctor.findings import Evidence
from doctor.matrix import Matrix
from doctor.rules.builds import CudaBuild, as_cuda, row_cuda, runtime_build
from doctor.rules.engine import Case, NotApplicable
from doctor.rules.software import Software, admits, engine, shared_pin


def torch_of_pin(
    case: Case, matrix: Matrix, found: Software, lowest: bool = False
) -> CudaBuild | None:
    """The default build of the newest torch that the engine's release admits.

    None where the pin has no upper bound, for then the day of the install decides, unless the
    `lowest` torch is asked for; and for a build with a label, which comes with the torch of
    its own index.
    """
    pin = shared_pin(found, "torch")
    labelled = found.version is None or found.version.local or case.scope.variants.get(found.name)
    if not pin or labelled or not found.is_public_build:
        return None
    finals = [(row, version) for row, version in matrix.versions("torch") if not row.prerelease]
    fitting = [pair for pair in finals if admits(pin, pair[1])]
    is_bounded = "<" in pin or pin.startswith("==")
    if not fitting or not (is_bounded or lowest):
        return None
    row, version = fitting[0] if is_bounded else fitting[-1]
    cuda = as_cuda(row_cuda(row, case.facts.host.arch.value) or "")
    if cuda is None:
        return None
    fact = Evidence(
        f"{found.label} asks for torch{pin}: torch {version}, for CUDA {cuda}", found.at
    )
    return CudaBuild("torch", version, cuda, fact, assumed=True, sources=found.rows[0].source)


def runtime(case: Case, matrix: Matrix) -> CudaBuild | None:
    """The build that opens the driver; where torch is not stated, what the engine brings of it."""
    build = runtime_build(case, matrix)
    is_known = case.scope.package("torch") or case.scope.torch.is_known or case.scope.image.ref
    if is_known or (build is not None and not build.assumed):
        return build
    try:
        torch = torch_of_pin(case, matrix, engine(case, matrix))
    except NotApplicable:
        return build
    if build is None or torch is None:
        return build or torch
    return torch if torch.cuda.release[:2] > build.cuda.release[:2] else build
