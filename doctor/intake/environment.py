"""The one scope that pasted outputs speak of: the Python environment they were taken in."""

from __future__ import annotations

from collections.abc import Iterable

from doctor.facts import (
    REPORTED,
    UNSTATED,
    Facts,
    Package,
    PythonInfo,
    Reading,
    Scope,
    Version,
    seen,
)
from doctor.intake.builds import torch_build
from doctor.intake.names import package_name
from doctor.probes.tool_text import reading

SCOPE = REPORTED


def package(name: str, version: str) -> Package:
    """A distribution of a list, its version as it was printed."""
    return Package(package_name(name), Version.maybe(version.strip()))


def environment(
    packages: Iterable[Package],
    at: str,
    kind: str = "venv",
    partial: bool = False,
    python: str = "",
) -> Facts:
    """Facts of one environment: its distributions, the torch among them, its Python."""
    unique = {item.name: item for item in packages if item.name}
    listed = tuple(unique.values())
    found = Version.maybe(python)
    torch = unique.get("torch")
    build = torch_build(torch.version, at=at) if torch and torch.version else None
    info: Reading[PythonInfo] = reading(PythonInfo(found) if found else None, at)
    scope = Scope(
        id=SCOPE,
        kind=kind,
        python=info,
        packages=seen(listed, at, partial) if listed else UNSTATED,
        torch=reading(build, at),
    )
    return Facts(scopes=(scope,))
