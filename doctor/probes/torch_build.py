"""torch/version.py, read as text: which CUDA or HIP the build was made for."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Optional

from doctor.facts import Missing, Package, Reading, TorchBuild, Version, missing, seen
from doctor.probes.files import relay
from doctor.probes.host import Host

_FILE = "torch/version.py"
# The file is written by torch's build and holds plain assignments. It is matched and not
# parsed: Python's parser can be driven into the ground by a hostile file.
_ASSIGNMENT = re.compile(
    r"""^(__version__|cuda|hip|git_version)[ \t]*(?::[^=\n]{0,80})?=[ \t]*
    (?:(None)\b|'([^'\n]{0,200})'|"([^"\n]{0,200})")""",
    re.MULTILINE | re.VERBOSE,
)
_NUMBERS = re.compile(r"\d{1,6}(?:\.\d{1,9}){0,3}")
_COMPANIONS = ("torchvision", "torchaudio")
_LIMIT = 1 << 16


def read(host: Host, folders: tuple[str, ...]) -> Reading[TorchBuild]:
    """The torch that the first of these folders has; absent if none has it."""
    for folder in folders:
        text = host.read_text(f"{folder}/{_FILE}", _LIMIT)
        if text.value is not None:
            return parse_version_file(text.value, text.at)
        if not text.is_absent:
            return relay(text)
    return missing(Missing.NOT_THERE, f"{folders[0]}/{_FILE}" if folders else _FILE)


def with_labels(host: Host, packages: Iterable[Package]) -> tuple[Package, ...]:
    """The distributions; torch's companions with the build label of their version.py.

    The metadata of the wheels on the default index leave the label (+cu130) out.
    """
    return tuple(
        replace(package, version=_labelled(host, package, package.version))
        if package.name in _COMPANIONS and package.version and not package.version.local
        else package
        for package in packages
    )


def _labelled(host: Host, package: Package, version: Version) -> Version:
    text = host.read_text(f"{package.location}/{package.name}/version.py", _LIMIT).value or ""
    for name, _, single, double in _ASSIGNMENT.findall(text):
        found = Version.maybe(single or double) if name == "__version__" else None
        if found is not None and found.public == version.public:
            return found
    return version


def parse_version_file(text: str, at: str = "") -> Reading[TorchBuild]:
    """Read the assignments; `cuda = None` is an absence that was observed."""
    stated: dict[str, Optional[str]] = {}
    for name, none, single, double in _ASSIGNMENT.findall(text):
        stated[name] = None if none else single or double
    version = Version.maybe(stated.get("__version__"))
    if version is None:
        return missing(Missing.NOT_READABLE, at)
    cuda, hip = (_runtime(stated, name, at) for name in ("cuda", "hip"))
    return seen(TorchBuild(version, cuda, hip, stated.get("git_version") or ""), at)


def _runtime(stated: dict[str, Optional[str]], name: str, at: str) -> Reading[Version]:
    if name not in stated:
        return missing(Missing.NOT_STATED, at)
    text = stated[name]
    if text is None:
        return missing(Missing.NOT_THERE, at)
    # HIP's version ends in a build label that is no version.
    numbers = _NUMBERS.match(text)
    version = Version.maybe(numbers[0]) if numbers else None
    return seen(version, at) if version else missing(Missing.NOT_READABLE, at)
