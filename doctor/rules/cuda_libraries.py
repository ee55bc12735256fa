"""Are the CUDA libraries found, and the right copies of them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

from doctor.facts import Binary
from doctor.findings import Evidence, Remedy
from doctor.matrix import Matrix
from doctor.rules import builds
from doctor.rules.builds import CudaBuild
from doctor.rules.cuda_major import major_of_soname
from doctor.rules.decide import each, is_absent, missed, need_contents
from doctor.rules.engine import Case, Fault, NotApplicable, Rule, Severity, rule
from doctor.rules.settings import covering
from doctor.rules.software import engine

CUDA_LIBRARY = re.compile(r"lib(?:cu(?!rl|ps)|nv|nccl|tensorrt)")
# Names of libraries, and of packages and products that consist of them.
_NAMED = re.compile(
    r"lib(?:cuda|cu(?:blas|dnn|fft|pti|rand|solver|sparse|file)|nv|nccl|tensorrt)[\w.+-]*|"
    r"(?:cublas(?:lt)?|cudart|cudnn\w{0,20}|cufft|curand|cusparse|cusolver|nvrtc\w{0,12}|"
    r"nvinfer\w{0,12}|"
    r"nvjitlink\w{0,4}|nccl)[\w.-]{0,12}\.dll|"
    r"cudnn[\d. ]*|cublas[\d. ]*|nccl|tensorrt(?: libraries)?|cuda (?:runtime|libraries)",
    re.IGNORECASE,
)
_DRIVER_LIBRARY = re.compile(r"lib(?:cuda|nvidia-ml|nvcuvid|nvidia-ptxjitcompiler)\.so")


@rule("CUD111", cause="cuda-lib-missing", severity=Severity.ERROR)
def library_not_found(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """A CUDA library that a binary needs is in none of the folders that are searched.

    What: NEEDED names of the binaries of the engine and of torch against the folders that
        the loader searches: the file's own run path, LD_LIBRARY_PATH, the loader's cache.
    Why: the import fails with "cannot open shared object file". Some wheels bring no CUDA
        libraries; others bring them as packages that were left out.
    How to fix: install the packages that carry the library, or put its folder on the
        loader's path before the process starts.
    Silent when: every name is resolved, or the folders were not searched.
    Sources: ld.so(8); METADATA of the wheels.
    """
    need_contents(case)
    yield from each(
        (
            lambda: _unresolved(case, matrix),
            lambda: _looked_for(case, matrix),
            lambda: _missed(case, matrix),
        )
    )


def _unresolved(case: Case, matrix: Matrix) -> Iterator[Fault]:
    looked = [b for b in case.scope.binaries.known("scope.binaries") if b.unresolved is not None]
    if not looked:
        raise NotApplicable("no binary was looked at")
    torch = builds.torch_build(case, matrix)
    seen: set[str] = set()
    for binary in looked:
        for name in binary.unresolved or ():
            if name not in seen and CUDA_LIBRARY.match(name) and not _is_other_major(name, torch):
                seen.add(name)
                yield _not_found(case, name, binary)


def _is_other_major(name: str, torch: CudaBuild | None) -> bool:
    """A library of another major than torch's is a matter of majors, not of folders."""
    major = major_of_soname(name)
    return torch is not None and major is not None and major != torch.cuda.major


def _not_found(case: Case, name: str, binary: Binary) -> Fault:
    major = major_of_soname(name)
    if _DRIVER_LIBRARY.match(name):
        fix = Remedy(
            "let the loader find the driver's library: in a container, start it with its GPUs "
            "and put the folder of the mounted driver into the loader's cache",
            ("ldconfig -p | grep libcuda.so.1", "sudo ldconfig"),
        )
    else:
        stem = re.sub(r"^lib|\.so.*", "", name).lower().removesuffix("lt")
        suffix = f"-cu{major}" if major else ""
        fix = Remedy(
            f"install the package that carries {name}, or put its folder on LD_LIBRARY_PATH "
            "before the process starts",
            (f"pip install {shlex.quote(f'nvidia-{stem}{suffix}')}",) if major else (),
            role="python_env",
        )
    return Fault(
        message=f"{binary.package or binary.path} needs {name}, which is in no searched folder",
        evidence=(Evidence(f"{binary.path} needs {name}", binary.path),),
        remedies=(fix,),
    )


def _looked_for(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """Libraries that the engine's project names, and that somebody looked for in vain."""
    found = engine(case, matrix)
    claims = [
        match
        for match in covering(matrix, found, "system-lib")
        if CUDA_LIBRARY.match(match.claim.key)
    ]
    if not claims:
        raise NotApplicable(f"no CUDA library is known that {found.name} takes from the system")
    for match in claims:
        if is_absent(case, match.claim.key):
            yield Fault(
                message=f"{found.label} needs {match.claim.key}, which is not there",
                evidence=(found.evidence, Evidence(f"{match.claim.key} was not found")),
                remedies=(Remedy(match.claim.remedy),) if match.claim.remedy else (),
                sources=tuple(match.claim.source),
            )


def _is_of_container_driver(name: str, case: Case) -> bool:
    """A library of the driver, of which a report about containers says that it is not there."""
    work = case.workload
    return (
        work is not None
        and work.engine in ("container-toolkit", "gpu-operator")
        and _DRIVER_LIBRARY.match(name) is not None
    )


def _missed(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """Libraries, or packages of them, that somebody looked for in vain and told of."""
    names = tuple(n for n in missed(case, _NAMED) if not _is_of_container_driver(n, case))
    if not names:
        raise NotApplicable("nobody missed a CUDA library")
    found = engine(case, matrix)
    known = [match.claim.key for match in covering(matrix, found, "system-lib")]
    for name in names:
        if name not in known:
            yield Fault(
                message=f"{name} is not there, and {found.label} was started without it",
                evidence=(found.evidence, Evidence(f"{name} was not found", "absent")),
                remedies=(Remedy(f"install the package that carries {name}"),),
            )


RULES: tuple[Rule, ...] = (library_not_found,)
