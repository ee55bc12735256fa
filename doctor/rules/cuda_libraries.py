"""Are the CUDA libraries found, and the right copies of them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

from doctor.facts import Binary, Version
from doctor.findings import Evidence, Remedy
from doctor.matrix import Matrix
from doctor.rules import builds
from doctor.rules.builds import CudaBuild
from doctor.rules.cuda_level import two_parts
from doctor.rules.cuda_major import major_of_soname
from doctor.rules.decide import each, is_absent, missed, need_contents
from doctor.rules.engine import Case, Fault, NotApplicable, Rule, Severity, rule
from doctor.rules.settings import covering
from doctor.rules.software import engine

_CUDA_LIBRARY = re.compile(r"lib(?:cu(?!rl|ps)|nv|nccl|tensorrt)")
# Names of libraries, and of packages and products that consist of them.
_NAMED = re.compile(
    r"lib(?:cuda|cu(?:blas|dnn|fft|pti|rand|solver|sparse|file)|nv|nccl|tensorrt)[\w.+-]*|"
    r"cudnn[\d. ]*|cublas[\d. ]*|nccl|tensorrt(?: libraries)?|cuda (?:runtime|libraries)",
    re.IGNORECASE,
)
_DRIVER_LIBRARY = re.compile(r"lib(?:cuda|nvidia-ml|nvcuvid|nvidia-ptxjitcompiler)\.so")
_TOOLKIT_FOLDER = re.compile(r"/cuda[-/](\d{1,2}\.\d{1,2})(?:/|$)")
# A library of which torch and TensorFlow bring copies of their own, as a note names it.
_COPY = re.compile(r"\blib(?:cudnn|cublas|cusparse|nccl|nvJitLink|cufft|nvrtc)\w{0,20}")
_DENIED = re.compile(r"\b(?:not?|nor|without|missing|absent|removed|unset|cannot)\b", re.IGNORECASE)


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
            if name not in seen and _CUDA_LIBRARY.match(name) and not _is_other_major(name, torch):
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
        if _CUDA_LIBRARY.match(match.claim.key)
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


def _missed(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """Libraries, or packages of them, that somebody looked for in vain and told of."""
    names = missed(case, _NAMED)
    if not names:
        raise NotApplicable("nobody missed a CUDA library")
    found = engine(case, matrix)
    known = [match.claim.key for match in matrix.claims(found.name, "system-lib")]
    for name in names:
        if name not in known:
            yield Fault(
                message=f"{name} is not there, and {found.label} was started without it",
                evidence=(found.evidence, Evidence(f"{name} was not found", "absent")),
                remedies=(Remedy(f"install the package that carries {name}"),),
            )


@rule("CUD121", cause="cuda-lib-shadowed", severity=Severity.ERROR)
def other_copy_found_first(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """Another copy of a CUDA library is found before the one that belongs to the build.

    What: copies that the loader finds first, and LD_LIBRARY_PATH with folders of stub
        libraries or of another CUDA version than the build's.
    Why: LD_LIBRARY_PATH beats what a wheel knows of its own libraries. An older copy of
        the same major lacks symbols ("undefined symbol: __nvJitLink..."); a stub libcuda
        only serves for linking.
    How to fix: take the folder out of LD_LIBRARY_PATH; wheels need none.
    Silent when: the folders named are of another major, whose names cannot collide, or
        hold nothing newer or older than the build. A warning where no symbol is missing, or
        where a note says that a copy lies in one of the folders.
    Sources: ld.so(8); CUDA toolkit documentation, stub libraries.
    """
    need_contents(case)
    yield from each(
        (
            lambda: _seen_shadowed(case),
            lambda: _stub_folder(case),
            lambda: _older_toolkit(case, matrix),
            lambda: _told_copy(case),
        )
    )


def _seen_shadowed(case: Case) -> Iterator[Fault]:
    looked = case.scope.binaries.known("scope.binaries")
    for binary in sorted(looked, key=lambda b: not b.undefined):
        wrong = [name for name in binary.shadowed if _CUDA_LIBRARY.match(name.rpartition("/")[2])]
        if wrong:
            yield _shadow(
                f"{binary.package or binary.path} gets {wrong[0]} instead of its own copy",
                Evidence(f"{binary.path}: {', '.join(wrong)}", binary.path),
                # Another copy that has all the symbols is a risk, not a fault.
                None if binary.undefined else Severity.WARNING,
            )
            return


def _search_path(case: Case) -> list[str]:
    own = case.workload.env.value if case.workload is not None else None
    env = {**(case.scope.env.value or {}), **(own or {})}
    if "LD_LIBRARY_PATH" not in env:
        if not case.scope.env.is_known or case.scope.env.partial:
            case.scope.env.known("scope.env.LD_LIBRARY_PATH")
        raise NotApplicable("LD_LIBRARY_PATH is not set")
    return [part for part in env["LD_LIBRARY_PATH"].split(":") if part]


def _stub_folder(case: Case) -> Iterator[Fault]:
    for folder in _search_path(case):
        if "stubs" in folder.split("/"):
            yield _shadow(
                f"LD_LIBRARY_PATH leads to stub libraries in {folder}",
                Evidence(f"LD_LIBRARY_PATH has {folder}", case.scope.env.at),
            )
            return


def _older_toolkit(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """A toolkit of the same major and an older minor holds the same names with fewer symbols."""
    folders = _search_path(case)
    versions = [(folder, _TOOLKIT_FOLDER.search(folder)) for folder in folders]
    named = [(folder, Version(match[1])) for folder, match in versions if match]
    if not named:
        raise NotApplicable("LD_LIBRARY_PATH names no toolkit")
    torch = builds.torch_build(case, matrix)
    if torch is None:
        case.scope.torch.known("scope.torch.cuda")
        return
    for folder, version in named:
        older = version.older_than(two_parts(torch.cuda)) is True
        if older and version.major == torch.cuda.major:
            yield _shadow(
                f"LD_LIBRARY_PATH puts CUDA {version} before the libraries of {torch.label} "
                f"(CUDA {torch.cuda})",
                Evidence(f"LD_LIBRARY_PATH has {folder}", case.scope.env.at),
                Severity.WARNING,
            )
            return


def _told_copy(case: Case) -> Iterator[Fault]:
    """A person found a copy of a library in a folder that LD_LIBRARY_PATH names."""
    folders = [folder.rstrip("/") for folder in _search_path(case)]
    for note in case.facts.notes:
        library = None if _DENIED.search(note) else _COPY.search(note)
        words = [word.strip("\"'`.,;:()").rstrip("/") for word in note.split()]
        named = {word.rpartition("/")[0] if _COPY.search(word) else word for word in words}
        folder = next((f for f in folders if f in named), "")
        if library and folder:
            yield _shadow(
                f"LD_LIBRARY_PATH leads to the {library[0]} in {folder} before that of the build",
                Evidence(note, "notes"),
                Severity.WARNING,
            )
            return


def _shadow(message: str, fact: Evidence, severity: Severity | None = None) -> Fault:
    return Fault(
        message=message,
        evidence=(fact,),
        remedies=(
            Remedy(
                "take the folder out of LD_LIBRARY_PATH where the engine is started",
                ("unset LD_LIBRARY_PATH",),
                risk="other programs started there may rely on it",
            ),
        ),
        severity=severity,
    )


RULES: tuple[Rule, ...] = (library_not_found, other_copy_found_first)
