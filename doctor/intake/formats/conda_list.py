"""`conda list`: distributions with the build that each was made as."""

from __future__ import annotations

import re
from dataclasses import replace

from doctor.facts import Facts, Package, Reading, Scope, TorchBuild, Version, seen
from doctor.intake.builds import torch_build
from doctor.intake.environment import environment, package
from doctor.probes.tool_text import lines

AT = "conda list"
_HEAD = re.compile(r"^# packages in environment at (\S{1,300}):?$", re.MULTILINE)
_NAMES = re.compile(r"^#\s{1,9}Name\s{1,99}Version\s{1,99}Build", re.MULTILINE)
_ROW = re.compile(
    r"([a-zA-Z0-9_][\w.-]{0,99})\s{1,99}(\d\S{0,60})(?:\s{1,99}(\S{1,99})(?:\s{1,99}(\S{1,99}))?)?"
)
_CUDA = re.compile(r"cuda_?(\d{1,2})\.?(\d)")


def looks_like(text: str) -> bool:
    """Tell by the heading lines."""
    return _HEAD.search(text) is not None or _NAMES.search(text) is not None


def parse(text: str) -> Facts:
    """The environment: its distributions, its Python and the build of its torch."""
    found: dict[str, tuple[Package, str]] = {}
    for line in lines(text):
        match = _ROW.fullmatch(line[:400])
        if match:
            row = conda_package(match[1], match[2])
            found.setdefault(row.name, (row, match[3] or ""))
    python = str(found["python"][0].version or "") if "python" in found else ""
    packages = (row for row, _ in found.values())
    facts = environment(packages, AT, kind="conda", python=python)
    head = _HEAD.search(text)
    scope = replace(facts.scopes[0], root=head[1].rstrip(":") if head else "")
    torch = found.get("torch")
    return replace(facts, scopes=(with_build(scope, torch[1] if torch else ""),))


def conda_package(name: str, version: str) -> Package:
    """A row of conda; its name for PyTorch is another."""
    return package(name, version)


def with_build(scope: Scope, build: str) -> Scope:
    """Add what a conda build string ("py3.10_cuda12.1_cudnn8_0") says of torch."""
    known: Reading[TorchBuild] = scope.torch
    version: Version | None = known.value.version if known.value else None
    cuda = _CUDA.search(build)
    label = f"cu{cuda[1]}{cuda[2]}" if cuda else "cpu" if "cpu" in build else ""
    if version is None or not label or "+" in version.text:
        return scope
    torch = torch_build(version, label, AT)
    return replace(scope, torch=seen(torch, AT), variants={**scope.variants, "torch": label})
