"""Is another copy of a CUDA library found before the one of the build."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.facts import Version
from doctor.findings import Evidence, Remedy
from doctor.matrix import Matrix
from doctor.rules import builds
from doctor.rules.cuda_level import two_parts
from doctor.rules.cuda_libraries import CUDA_LIBRARY
from doctor.rules.decide import each, need_contents
from doctor.rules.engine import Case, Fault, NotApplicable, Rule, Severity, rule

_TOOLKIT_FOLDER = re.compile(r"/cuda[-/](\d{1,2}\.\d{1,2})(?:/|$)")
# A library of which torch and TensorFlow bring copies of their own, as a note names it.
_COPY = re.compile(r"\blib(?:cudnn|cublas|cusparse|nccl|nvJitLink|cufft|nvrtc)\w{0,20}")
# Where a note says that a copy was put into a toolkit; and what is preloaded from the system.
_PUT_THERE = re.compile(
    r"\b(?:cudnn|cublas|nccl|cusparse|nvjitlink|cufft)\b[^;\n]{0,40}\b(?:copied|put|placed|"
    r"installed|"
    r"unpacked|extracted|lies|is)\b[^.;\n]{0,20}\b(?:in|into|to|beside)\b[^.;\n]{0,20}"
    r"(?:\btoolkit\b|/usr/local/cuda)",
    re.IGNORECASE,
)
# Packages of conda and of distributions that hold one of these libraries, by CUDA version.
_OF_PACKAGES = ("libnvjitlink", "libcublas", "libcusparse", "libcusolver", "libcufft", "cuda-nvrtc")
_VERSIONED = re.compile(r"\.so\.\d+\.\d")  # such a copy is judged by its version
_LINKED_TOOLKIT = re.compile(r"/usr/local/cuda(?:/|$)")
_DENIED = re.compile(r"\b(?:not?|nor|without|missing|absent|removed|unset|cannot)\b", re.IGNORECASE)


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
        where a note says that a copy lies in one of the folders, LD_PRELOAD names one, or an
        older package lies beside.
    Sources: ld.so(8); CUDA toolkit documentation, stub libraries.
    """
    need_contents(case)
    yield from each(
        (
            lambda: _seen_shadowed(case),
            lambda: _stub_folder(case),
            lambda: _older_toolkit(case, matrix),
            lambda: _told_copy(case),
            lambda: _preloaded(case),
            lambda: _older_package(case, matrix),
        )
    )


def _seen_shadowed(case: Case) -> Iterator[Fault]:
    looked = case.scope.binaries.known("scope.binaries")
    for binary in sorted(looked, key=lambda b: not b.undefined):
        wrong = [name for name in binary.shadowed if CUDA_LIBRARY.match(name.rpartition("/")[2])]
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
    named += _linked(case, folders)
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


def _linked(case: Case, folders: list[str]) -> list[tuple[str, Version]]:
    """/usr/local/cuda in the path, where the one toolkit that is stated tells its version."""
    stated = {t.version for t in case.facts.nvidia.toolkits.value or () if t.version}
    linked = [folder for folder in folders if _LINKED_TOOLKIT.match(folder)]
    return [(linked[0], stated.pop())] if linked and len(stated) == 1 else []


def _preloaded(case: Case) -> Iterator[Fault]:
    """LD_PRELOAD puts a system's copy of a CUDA library before that of every build."""
    value = (case.scope.env.value or {}).get("LD_PRELOAD", "")
    parts = [part for part in re.split(r"[: ]", value) if _COPY.search(part)]
    names = [part for part in parts if not _VERSIONED.search(part)]
    if not names:
        raise NotApplicable("no CUDA library is preloaded")
    yield _shadow(
        f"LD_PRELOAD puts {names[0]} before the copy that the build brings",
        Evidence(f"LD_PRELOAD={value}", case.scope.env.at),
        Severity.WARNING,
    )


def _older_package(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """A package of the same major and an older minor, in an environment that the path names."""
    folders = [folder for folder in _search_path(case) if not _TOOLKIT_FOLDER.search(folder)]
    torch = builds.torch_build(case, matrix)
    if torch is None or not folders:
        raise NotApplicable("no torch, or no folder of packages")
    for name in _OF_PACKAGES:
        package = case.scope.package(name)
        version = package.version if package is not None else None
        if version is None or version.major != torch.cuda.major:
            continue
        if version.older_than(two_parts(torch.cuda)) is True:
            yield _shadow(
                f"LD_LIBRARY_PATH leads to {name} {version} before the libraries of "
                f"{torch.label} (CUDA {torch.cuda})",
                Evidence(f"LD_LIBRARY_PATH has {folders[0]}", case.scope.env.at),
                Severity.WARNING,
            )
            return


def _told_copy(case: Case) -> Iterator[Fault]:
    """A person found a copy of a library in a folder that LD_LIBRARY_PATH names."""
    folders = [folder.rstrip("/") for folder in _search_path(case)]
    for note in case.facts.notes:
        put = None if _DENIED.search(note) else _PUT_THERE.search(note)
        toolkit = next((f for f in folders if f.startswith("/usr/local/cuda")), "")
        if put and toolkit:
            yield _shadow(
                f"LD_LIBRARY_PATH leads to a copy in {toolkit} before that of the build",
                Evidence(note, "notes"),
                Severity.WARNING,
            )
            return
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


RULES: tuple[Rule, ...] = (other_copy_found_first,)
