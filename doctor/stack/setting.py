"""What a host is, as far as it decides which builds are worth proposing."""

from __future__ import annotations

from dataclasses import dataclass, replace

from doctor.facts import (
    Facts,
    Missing,
    PythonInfo,
    Reading,
    Scope,
    Specifier,
    Version,
    seen,
)
from doctor.matrix import Matrix
from doctor.matrix.model import Release
from doctor.rules import cards

# Of a release for any Python, those that interpreters are had for.
_MINORS = range(8, 13)
_ALIASES = {"amd64": "x86_64", "arm64": "aarch64"}


@dataclass(frozen=True)
class Setting:
    """Vendor of the devices ("cpu" for none), architecture, Python, and whether images can run.

    `arch` is "" and `python` None where they are not known; `has_containers` is None then.
    """

    facts: Facts
    vendor: str
    arch: str
    python: Version | None
    has_containers: bool | None


def setting_of(facts: Facts) -> Setting:
    """Read the setting from facts."""
    python = python_of(facts).value
    arch = facts.host.arch.value or ""
    box = facts.container_engine
    return Setting(
        facts=facts,
        vendor=_vendor(facts),
        arch=_ALIASES.get(arch.lower(), arch),
        python=python.version if python else None,
        has_containers=False if box.is_absent else True if box.is_known else None,
    )


def with_arch(facts: Facts, matrix: Matrix) -> tuple[Facts, str]:
    """A host that was told without its architecture: that of its boards, else x86_64; a note.

    Nearly every host of NVIDIA's and AMD's cards is one. Ascend cards are in both, so nothing
    is taken for granted there, and nothing of a host that was read.
    """
    devices = facts.devices.value or ()
    vendors = {device.vendor for device in devices}
    if facts.host.arch.missing is not Missing.NOT_STATED or not devices:
        return facts, ""
    boards = {cards.shared(d, matrix, "host_arch") if d.vendor == "nvidia" else "" for d in devices}
    if not vendors <= {"nvidia", "amd"} or len(boards) > 1:
        return facts, ""
    board = boards.pop()
    arch = board or "x86_64"
    host = replace(facts.host, arch=seen(arch, "assumed: nobody said it"))
    note = "" if board else "an x86_64 host is assumed: say arch=aarch64 for the other"
    return replace(facts, host=host), note


def _vendor(facts: Facts) -> str:
    """The vendor of the devices; of several, the one that has most of them."""
    vendors = [device.vendor for device in facts.devices.value or ()]
    return max(vendors, key=vendors.count, default="cpu")


def python_of(facts: Facts) -> Reading[PythonInfo]:
    """The Python that the host offers: of its first scope that has one, containers left out."""
    for scope in facts.scopes:
        if scope.python.is_known and not _is_inside(scope):
            return scope.python
    first = next(iter(facts.scopes), Scope("host", "host"))
    return first.python


def _is_inside(scope: Scope) -> bool:
    return scope.kind in ("container", "image")


def newest_python(release: Release) -> Version | None:
    """The newest Python for which a release has wheels, or the newest that it admits."""
    spec = Specifier.parse(release.requires_python)
    listed = [_of_tag(tag) for tag in release.pythons if not tag.endswith("t")]
    choices = [v for v in listed if v is not None] or [Version(f"3.{n}") for n in _MINORS]
    fitting = [v for v in choices if spec is None or spec.admits(v) is True]
    return max(fitting, key=lambda v: v.low, default=None)


def _of_tag(tag: str) -> Version | None:
    digits = tag.removeprefix("cp")
    return Version.maybe(f"{digits[:1]}.{digits[1:]}") if digits.isdecimal() else None
