"""Which installed distributions matter to the engine: itself and what it needs, directly or not."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from doctor.facts import Package, PythonInfo
from doctor.matrix import Matrix
from doctor.rules.engine import Case, NotApplicable
from doctor.rules.software import engine_name

# Of what an engine needs, these carry machine code or are patched by it: a wrong version
# of another dependency seldom stops it.
_CORE = re.compile(
    r"torch|triton|transformers|tokenizers|safetensors|huggingface-hub|accelerate|numpy|"
    r"flash|xformers|kernel|cutlass|cuda|nvidia-|xgrammar|outlines|llguidance|"
    r"compressed-tensors|bitsandbytes|onnxruntime|tensorrt|deep-gemm|deepgemm|numba|ray|"
    r"protobuf|pydantic|vllm|sglang|lmdeploy|mlx|tvm"
)
_LINE = re.compile(
    r"\s*(?P<name>[A-Za-z0-9][A-Za-z0-9._-]*)\s*(?P<extras>\[[^\]]*\])?"
    r"\s*\(?(?P<spec>[^;()@]*)\)?\s*(?P<url>@[^;]*)?(?:;(?P<marker>.*))?"
)


@dataclass(frozen=True)
class Requirement:
    """One Requires-Dist line, taken apart; `marker` is "" where there is none."""

    name: str
    spec: str
    marker: str = ""


# The same lines stand in every environment of a host and of a fleet.
@lru_cache(maxsize=1 << 14)
def parse_requirement(line: str) -> Requirement | None:
    """Read a Requires-Dist line; None for one by URL or not understood."""
    match = _LINE.fullmatch(line[:1000])
    if match is None or match["url"]:
        return None
    name = re.sub(r"[-_.]+", "-", match["name"]).lower()
    return Requirement(name, match["spec"].strip(), (match["marker"] or "").strip())


def requirements(package: Package, python: PythonInfo | None, arch: str) -> list[Requirement]:
    """What a distribution requires here, without its extras."""
    parsed = (parse_requirement(line) for line in package.requires)
    return [r for r in parsed if r is not None and _asked_for(r.marker, python, arch)]


def _asked_for(marker: str, python: PythonInfo | None, arch: str) -> bool:
    """Tell whether a marker holds; extras are not asked for, and what is unclear is left out."""
    if not marker:
        return True
    if "extra" in marker or python is None or not python.version.is_exact:
        return False
    from packaging.markers import InvalidMarker, Marker, UndefinedEnvironmentName

    try:
        return Marker(marker).evaluate(_environment(python, arch))
    except (InvalidMarker, UndefinedEnvironmentName, ValueError):
        return False


def _environment(python: PythonInfo, arch: str) -> dict[str, str]:
    release = python.version.release
    return {
        "python_version": ".".join(map(str, release[:2])),
        "python_full_version": str(python.version),
        "implementation_name": python.implementation,
        "implementation_version": str(python.version),
        "platform_python_implementation": "CPython" if python.implementation == "cpython" else "",
        "platform_machine": arch,
        "platform_system": "Linux",
        "sys_platform": "linux",
        "os_name": "posix",
        "platform_release": "",
        "platform_version": "",
        "extra": "",
    }


def needed(case: Case, matrix: Matrix) -> frozenset[str]:
    """Names of the engine's distributions and of all that they need here."""
    roots = _roots(case, matrix)
    by_name = {p.name: p for p in case.scope.packages.value or ()}
    python = case.scope.python.value
    arch = case.facts.host.arch.value or ""
    found: set[str] = set()
    todo = [name for name in roots if name in by_name]
    while todo:
        name = todo.pop()
        if name in found:
            continue
        found.add(name)
        if name in by_name:
            todo.extend(r.name for r in requirements(by_name[name], python, arch))
    return frozenset(found)


def _roots(case: Case, matrix: Matrix) -> tuple[str, ...]:
    try:
        name = engine_name(case, matrix)
    except NotApplicable:
        return ()
    domain = matrix.engine(name)
    return (name, *(domain.packages if domain else ()))


def is_relevant(case: Case, matrix: Matrix, name: str) -> bool:
    """Tell whether the engine needs this distribution and breaks on a wrong version of it."""
    roots = _roots(case, matrix)
    if name in roots:
        return True
    return _CORE.search(name) is not None and name in needed(case, matrix)
