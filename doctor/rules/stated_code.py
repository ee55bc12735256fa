"""GPU code that is told of: what somebody says a thing was built for, or is compiling it for."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.facts import CodeTarget, Kernels
from doctor.findings import Evidence
from doctor.matrix import Matrix
from doctor.rules.code_holders import Holder
from doctor.rules.engine import Case
from doctor.rules.model_facts import environment

_TARGET = re.compile(r"\b(sm|compute)[_ ]?(\d{2,3}[af]?)\b", re.IGNORECASE)
_ARCH = re.compile(r"(\d{1,2})\.(\d)([af]?)(\+ptx)?", re.IGNORECASE)
_NUMBER = re.compile(r"(?<![\d.])(\d{2,3}[af]?)(-real|-virtual)?(?![\d.])")
_CMAKE = re.compile(r"-DCMAKE_CUDA_ARCHITECTURES=[\"']?([\w;,-]+)")


def told(case: Case, matrix: Matrix) -> Iterator[Holder]:
    """What a report says of the targets of a package, or of the build that is made here."""
    name = case.workload.engine if case.workload is not None else ""
    is_foreign = matrix.canonical(name) is None
    for package, text in case.scope.built_for.items():
        targets = [f"{kind.lower()}_{number}" for kind, number in _TARGET.findall(text)]
        if targets:
            fact = Evidence(f"{package} is built for {text}", "built_for")
            yield _holder(package, targets, fact, is_core=is_foreign or package == name)
    if case.workload is not None and case.workload.building.is_known:
        yield from _of_environment(name, environment(case))


def _of_environment(name: str, env: dict[str, str]) -> Iterator[Holder]:
    """The targets that a build is told to make by its usual variables."""
    asked = {
        "TORCH_CUDA_ARCH_LIST": _of_torch(env.get("TORCH_CUDA_ARCH_LIST", "")),
        "CUDAARCHS": _of_cmake(env.get("CUDAARCHS", "")),
        "CMAKE_ARGS": _of_cmake("".join(_CMAKE.findall(env.get("CMAKE_ARGS", "")))),
    }
    for variable, targets in asked.items():
        if targets:
            fact = Evidence(f"{variable} asks for {' '.join(targets)}", f"environment {variable}")
            yield _holder(name, targets, fact, is_core=False)
            return


def _of_torch(text: str) -> list[str]:
    """Targets of a list such as 8.0 8.6+PTX."""
    found = _ARCH.findall(text)
    machine = [f"sm_{major}{minor}{suffix}" for major, minor, suffix, _ in found]
    return machine + [f"compute_{a}{b}{suffix}" for a, b, suffix, ptx in found if ptx]


def _of_cmake(text: str) -> list[str]:
    """Targets of a list such as 80-real;86, where a number alone makes both kinds."""
    found = _NUMBER.findall(text)
    machine = [f"sm_{number}" for number, kind in found if kind != "-virtual"]
    return machine + [f"compute_{number}" for number, kind in found if kind != "-real"]


def _holder(name: str, targets: list[str], fact: Evidence, is_core: bool) -> Holder:
    kernels = (Kernels(tuple(map(CodeTarget.parse, dict.fromkeys(targets)))),)
    return Holder(name, kernels, fact, is_core=is_core)
