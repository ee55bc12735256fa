"""Facts of a host as they would be with a candidate on it."""

from __future__ import annotations

from dataclasses import replace

from doctor.facts import (
    UNSTATED,
    AscendFacts,
    Binary,
    DriverLibrary,
    Facts,
    ImageRef,
    Kernels,
    Missing,
    NvidiaFacts,
    Package,
    PythonInfo,
    Reading,
    Scope,
    TorchBuild,
    Version,
    Workload,
    missing,
    seen,
)
from doctor.matrix import Matrix
from doctor.stack.model import Ask, Candidate, Torch
from doctor.stack.setting import python_of

SCOPE = "stack"
AT = "proposed"


def with_candidate(facts: Facts, candidate: Candidate, ask: Ask, matrix: Matrix) -> Facts:
    """The same host with nothing on it but the candidate, which is wanted to run."""
    is_image = candidate.kind == "image"
    scope = Scope(
        id=SCOPE,
        kind="image" if is_image else "venv",
        parent="host",
        image=_image(candidate) if is_image else ImageRef(),
        python=_python(facts, candidate),
        packages=seen(_packages(candidate), AT, partial=True),
        torch=_torch_build(candidate.torch, candidate.vendor),
        binaries=_binaries(candidate),
        env=seen(dict(candidate.env), AT) if is_image else UNSTATED,
        devices_visible=_visible(facts, candidate, ask) if is_image else UNSTATED,
        libc=seen(candidate.libc, candidate.artifact) if candidate.libc else UNSTATED,
        variants={candidate.package: candidate.variant} if candidate.variant else {},
    )
    hypothetical = replace(
        facts,
        scopes=(scope,),
        workloads=(_workload(candidate, ask),),
        logs=(),
        notes=(),
        ascend=_ascend(facts, candidate),
    )
    if not is_image or facts.nvidia.driver.value is None:
        return hypothetical
    return replace(hypothetical, nvidia=_libcuda(facts, candidate, matrix))


def _image(candidate: Candidate) -> ImageRef:
    cuda = candidate.cuda
    return ImageRef(candidate.artifact, cuda=seen(cuda, "image tag") if cuda else UNSTATED)


def _python(facts: Facts, candidate: Candidate) -> Reading[PythonInfo]:
    own = python_of(facts)
    if candidate.kind != "image" and own.is_known:
        return own
    return seen(PythonInfo(candidate.python), AT) if candidate.python else UNSTATED


def _packages(candidate: Candidate) -> tuple[Package, ...]:
    found = []
    if candidate.version is not None:
        requires = candidate.release.requires_python if candidate.release else ""
        found.append(
            Package(
                candidate.package,
                candidate.version,
                requires_python=requires if candidate.kind != "image" else "",
                tags=candidate.tags,
            )
        )
    torch = candidate.torch
    if torch is not None and candidate.package != "torch":
        found.append(Package("torch", _labelled(torch)))
    return tuple(found)


def _labelled(torch: Torch) -> Version:
    return Version(f"{torch.version}+{torch.label}") if torch.label else torch.version


def _torch_build(torch: Torch | None, vendor: str) -> Reading[TorchBuild]:
    if torch is None:
        return UNSTATED
    nothing = missing(Missing.NOT_THERE, AT)
    cuda = seen(torch.cuda, AT) if torch.cuda else nothing
    # What ROCm a build for AMD was made with is not known; that it was is.
    hip = UNSTATED if vendor == "amd" else nothing
    return seen(TorchBuild(_labelled(torch), cuda=cuda, hip=hip), AT)


def _binaries(candidate: Candidate) -> Reading[tuple[Binary, ...]]:
    """The code of a build as its project declares it."""
    if not candidate.code:
        return UNSTATED
    binary = Binary(
        path=candidate.artifact,
        package=candidate.package,
        kernels=(Kernels(candidate.code),),
        cuda=candidate.cuda,
        declared=True,
    )
    return seen((binary,), AT, partial=True)


def _visible(facts: Facts, candidate: Candidate, ask: Ask) -> Reading[tuple[str, ...]]:
    ids = (
        candidate.devices or ask.devices or tuple(device.id for device in facts.devices.value or ())
    )
    return seen(ids, AT) if ids else UNSTATED


def _workload(candidate: Candidate, ask: Ask) -> Workload:
    version = candidate.version
    return Workload(
        id=candidate.engine,
        engine=candidate.engine,
        scope=SCOPE,
        devices=candidate.devices or ask.devices,
        version=seen(version, AT) if version else missing(Missing.NOT_STATED),
        args=seen(dict(ask.args), "asked for"),
        model=seen(dict(ask.model), "asked for") if ask.model else UNSTATED,
    )


def _ascend(facts: Facts, candidate: Candidate) -> AscendFacts:
    """The toolkit that the release is made for: inside its image, else to be installed too."""
    cann = Version.maybe(dict(candidate.extra).get("cann"))
    if cann is None or (candidate.kind != "image" and facts.ascend.cann.is_known):
        return facts.ascend
    return replace(facts.ascend, cann=seen(cann, candidate.artifact), nnal=UNSTATED)


def _libcuda(facts: Facts, candidate: Candidate, matrix: Matrix) -> NvidiaFacts:
    """The libcuda that the image's processes would load: the host's, or the image's own."""
    nvidia = facts.nvidia
    if candidate.compat is None:
        offered = matrix.driver_cuda(nvidia.driver.value) if nvidia.driver.value else None
        api = seen(offered, nvidia.driver.at) if offered else nvidia.cuda_driver_api
        return replace(nvidia, libcuda=UNSTATED, cuda_driver_api=api)
    branch = next(
        (b.branch for b in matrix.drivers.branches if _same(b.cuda, candidate.compat)), None
    )
    library = DriverLibrary(
        path="/usr/local/cuda/compat/libcuda.so.1",
        version=Version(f"{branch}.*") if branch else None,
        compat=True,
        cuda=candidate.compat,
        searched=0,
    )
    return replace(nvidia, libcuda=seen((library,), candidate.artifact))


def _same(cuda: str | None, wanted: Version) -> bool:
    own = Version.maybe(cuda)
    return own is not None and own.same_as(wanted) is True
