"""What an engine needs of the system around it: libraries."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from doctor.facts import Binary
from doctor.findings import Evidence, Remedy
from doctor.matrix import Matrix
from doctor.rules.decide import each, is_absent, missed, need_contents
from doctor.rules.driver_choice import package_commands
from doctor.rules.engine import Case, Fault, NotApplicable, Rule, Severity, rule
from doctor.rules.settings import applicable, settings
from doctor.rules.software import engine

# Libraries of CUDA, ROCm, CANN, TensorRT and of the frameworks have rules of their own.
_ACCELERATOR = re.compile(
    r"lib(?:cu(?!rl|ps)|nv|nccl|torch|c10|caffe2|hip|roc|amd|hsa|ascend|tensorrt|python|shm|mlx|vllm|"
    r"ggml|llama|onnxruntime|acl|hccl)"
)
_LIBRARY = re.compile(
    r"lib[a-z0-9][\w.+-]*|openmpi(?:-\w+)*|numactl(?:-\w+)*|mesa-libgl|rdma-core|ffmpeg",
    re.IGNORECASE,
)
# Packages that carry a system library, by family. Source: file lists of the distributions.
_PACKAGES: dict[str, dict[str, tuple[str, ...]]] = {
    "libnuma": {"debian": ("libnuma1",), "rhel": ("numactl-libs",), "suse": ("libnuma1",)},
    "libmpi": {"debian": ("libopenmpi-dev",), "rhel": ("openmpi",), "suse": ("openmpi4-libs",)},
    "libgl": {"debian": ("libgl1",), "rhel": ("mesa-libGL",), "suse": ("Mesa-libGL1",)},
    "libgomp": {"debian": ("libgomp1",), "rhel": ("libgomp",), "suse": ("libgomp1",)},
    "libglib-2": {"debian": ("libglib2.0-0",), "rhel": ("glib2",), "suse": ("libglib-2_0-0",)},
    "libibverbs": {"debian": ("libibverbs1",), "rhel": ("libibverbs",), "suse": ("libibverbs1",)},
    "libsndfile": {"debian": ("libsndfile1",), "rhel": ("libsndfile",), "suse": ("libsndfile1",)},
}


@rule("HST181", cause="system-lib-missing", severity=Severity.ERROR)
def system_library_missing(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """A library of the system that the engine needs is not installed.

    What: libraries that binaries name and that no searched folder has, and those that
        the engine's project asks for and that were looked for without success.
    Why: pip installs no system libraries; the import then fails with "cannot open shared
        object file", and some engines hide that behind a message of their own.
    How to fix: install the distribution's package, in the image if that is where the
        engine runs.
    Silent when: the library was not looked for, or it belongs to CUDA or a framework.
    Sources: installation pages of the engines (claims in the matrix); NEEDED entries of
        the binaries.
    """
    need_contents(case)
    yield from each(
        (
            lambda: _unresolved(case),
            lambda: _asked_for(case, matrix),
            lambda: _missed(case, matrix),
        )
    )


def _unresolved(case: Case) -> Iterator[Fault]:
    binaries = case.scope.binaries.known("scope.binaries")
    looked = [b for b in binaries if b.unresolved is not None]
    if not looked:
        raise NotApplicable("no binary was looked at")
    missing: dict[str, Binary] = {}
    for binary in looked:
        for name in binary.unresolved or ():
            if not _ACCELERATOR.match(name) and "musl" not in name:
                missing.setdefault(name, binary)
    for name, binary in missing.items():
        fact = Evidence(f"{binary.path} needs {name}", binary.path)
        yield _missing(case, name, binary.package or binary.path, fact)


def _asked_for(case: Case, matrix: Matrix) -> Iterator[Fault]:
    if case.scope.kind == "image" and not case.scope.absent.is_known:
        raise NotApplicable("an image brings libraries of its own, which were not looked at")
    found = engine(case, matrix)
    claims = [
        match
        for setting in settings(case, matrix)[:1]
        for match in applicable(matrix, found, "system-lib", setting)
        if not _ACCELERATOR.match(match.claim.key) and "toolchain" not in match.claim.data
    ]
    if not claims:
        raise NotApplicable(f"no system library is known that {found.name} needs")
    for match in claims:
        if is_absent(case, match.claim.key):
            own = (Remedy(match.claim.remedy),) if match.claim.remedy else ()
            fault = _missing(case, match.claim.key, found.label, found.evidence)
            yield replace(
                fault,
                remedies=(*own, *fault.remedies),
                sources=tuple(match.claim.source),
            )


def _missed(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """Libraries, or packages of them, that somebody looked for in vain and told of."""
    missing = missed(case, _LIBRARY)
    names = [n for n in missing if n.startswith("libpython") or not _ACCELERATOR.match(n)]
    if not names:
        raise NotApplicable("nobody missed a library")
    found = engine(case, matrix)
    known = [match.claim.key for match in matrix.claims(found.name, "system-lib")]
    for name in names:
        if not any(key in name for key in known):
            yield _missing(case, name, found.label, found.evidence)


def _missing(case: Case, name: str, user: str, fact: Evidence) -> Fault:
    stem = next((key for key in _PACKAGES if name.lower().startswith(key)), "")
    commands = package_commands(case.facts.host.os.value, _PACKAGES.get(stem, {}))
    return Fault(
        message=f"{name} is not installed, and {user} needs it",
        evidence=(fact, Evidence(f"{name} was not found", _searched(case, name))),
        remedies=(Remedy(f"install the package that brings {name}", commands),),
    )


def _searched(case: Case, name: str) -> str:
    """Where it was looked for: what names it among the absent, else what reads binaries."""
    readings = (case.scope.absent, case.facts.host.absent)
    named = (r.at for r in readings if any(name in entry for entry in r.value or ()))
    return next(named, case.scope.binaries.at)


RULES: tuple[Rule, ...] = (system_library_missing,)
