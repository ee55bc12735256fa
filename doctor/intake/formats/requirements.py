"""requirements.txt: an environment that does not exist yet.

What they ask for stands in a scope of its own, "requirements", so that it never mixes
with an environment that was observed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from itertools import islice

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import InvalidWheelFilename, parse_wheel_filename

from doctor.facts import Facts, Package, PythonInfo, Version, seen
from doctor.intake.builds import torch_build
from doctor.intake.environment import environment
from doctor.intake.names import package_name
from doctor.probes.tool_text import lines, reading

SCOPE = "requirements"
_INDEX = re.compile(r"--(?:extra-)?index-url[ =]\S{1,300}/(cu\d{2,4}|cpu|rocm\d[\d.]{0,6})\b")
_BOUND = re.compile(r"[=<>~!]=|[<>]")
_SHAPE = re.compile(r"[A-Za-z0-9][\w.-]{0,99} ?(?:\[[^\]]{0,99}\] ?)?(?:$|[=<>~!;@(])")
_OPTION = re.compile(
    r"^-(?:r|c|-requirement|-constraint|-(?:extra-)?index-url|-find-links|-pre|-no-binary)\b",
    re.MULTILINE,
)


def looks_like(text: str) -> bool:
    """Tell by lines that are all requirements, some with a bound, or by an option of pip's."""
    listed = _candidates(text)
    telling = _OPTION.search(text) or any(_BOUND.search(line) for line in listed)
    return bool(telling and listed) and all(requirement(line) for line in listed)


def parse(text: str) -> Facts:
    """The hypothetical environment."""
    index = _INDEX.search(text)
    found = [r for line in _candidates(text) if (r := requirement(line)) and applies(r)]
    packages = [required_package(r) for r in found]
    return hypothetical(packages, partial=True, variant=index[1] if index else "")


def hypothetical(
    packages: Iterable[Package], partial: bool, python: str = "", variant: str = ""
) -> Facts:
    """Facts of an environment that is asked for; `variant` is the build of its index."""
    facts = environment(packages, SCOPE, partial=partial)
    allowed = Version.maybe(python)
    info = PythonInfo(allowed) if allowed else None
    scope = replace(facts.scopes[0], id=SCOPE, python=reading(info, SCOPE))
    if variant and scope.torch.value is not None:
        build = torch_build(scope.torch.value.version, variant, SCOPE)
        scope = replace(scope, torch=seen(build, SCOPE), variants={"torch": variant})
    return Facts(scopes=(scope,))


def _candidates(text: str) -> list[str]:
    """Lines without comments and options."""
    listed = (
        re.split(r"(?:^|\s)#", line[:600])[0] for line in islice(lines(text[: 32 << 10]), 1000)
    )
    stripped = (line.partition(" --hash")[0].strip().rstrip("\\").strip() for line in listed)
    return [line for line in stripped if line and not line.startswith("-")]


def requirement(line: str) -> Requirement | None:
    """A requirement that holds on Linux; a wheel's address counts as one."""
    if line.endswith(".whl"):
        return _wheel(line)
    try:
        return Requirement(line) if _SHAPE.match(line) else None
    except (InvalidRequirement, RecursionError):
        return None


def applies(found: Requirement) -> bool:
    """Whether a marker lets a requirement hold on 64-bit Linux."""
    if found.marker is None:
        return True
    linux = {"sys_platform": "linux", "platform_system": "Linux", "os_name": "posix"}
    try:
        return found.marker.evaluate(dict(linux))
    except (ValueError, KeyError):
        return True


def _wheel(line: str) -> Requirement | None:
    file = re.split(r"[/\\]", line.rpartition("%2F")[2])[-1].replace("%2B", "+")
    try:
        name, version, _, _ = parse_wheel_filename(file)
        return Requirement(f"{name}=={version}")
    except (InvalidWheelFilename, InvalidRequirement, ValueError):
        return None


def required_package(found: Requirement) -> Package:
    """Bounds as asked for; one exact pin is that version."""
    if found.url and (wheel := _wheel(found.url)):
        found = wheel
    text = str(found.specifier)
    pinned = re.fullmatch(r"={2,3}([^,*]{1,60})", text)
    return Package(package_name(found.name), Version.maybe(pinned[1] if pinned else text))
