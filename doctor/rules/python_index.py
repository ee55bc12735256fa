"""A torch that a command asks for, and the Pythons of its wheels on that system."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from doctor.facts import Version
from doctor.findings import Evidence, Remedy
from doctor.matrix import Matrix
from doctor.matrix.model import Claim
from doctor.rules.engine import Case, Fault, NotApplicable, Rule, Severity, rule
from doctor.rules.host_cpu import architecture
from doctor.rules.software import admits

_INSTALLS = re.compile(
    r"\b(?:pip3?|uv)\b[^\n;]{0,60}\b(?:install|add|sync)\b|\brequirements\b", re.I
)
_PINNED = re.compile(r"\btorch==(\d+\.\d+(?:\.\d+)?)")
_BARE = re.compile(r"\btorch(?![\w=<>.-])")
_INDEX = re.compile(r"(?:--index-url|--index|-i)[ =]\S{1,80}/whl/(cu\d{2,3})\b")
_SYSTEMS = ("windows", "macos")


@dataclass(frozen=True)
class Asked:
    """The torch that is asked for: one release, or all that an index has."""

    what: str
    spec: str
    fact: Evidence


@rule("PYE109", cause="python-unsupported", severity=Severity.WARNING)
def asked_torch_has_no_wheel(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """The torch that a command or requirement asks for has no wheel for this Python here.

    What: the release that is asked for ("torch==1.13.1"), or those of the index for a CUDA that
        a command names, against the Pythons of their wheels on this system.
    Why: torch comes as wheels alone: "no matching distribution found for torch", "from
        versions: none".
    How to fix: a Python that has them, or a release of torch, or an index, for this Python.
    Silent when: a wheel for this Python is among them, on any system where none is told.
    Sources: file names of the package index; PyTorch's page of previous versions (claims in
        the matrix).
    """
    asked = list(_asked(case, matrix))
    if not asked:
        raise NotApplicable("no command asks for a torch")
    python = case.scope.python.known("python")
    minor = ".".join(map(str, python.version.release[:2]))
    for one in asked:
        claims = [m.claim for m in matrix.claims("torch", "wheel-python") if _meets(m.claim, one)]
        own = [claim for claim in claims if not claim.key or claim.key in _platforms(case)]
        offered = [text for claim in own for text in claim.value.split("|")]
        if offered and minor not in offered:
            listed = ", ".join(sorted(set(offered), key=lambda text: Version(text).low))
            yield Fault(
                f"{one.what} has wheels for Python {listed}; this is {python.version}",
                evidence=(one.fact, Evidence(f"Python {python.version}", case.scope.python.at)),
                remedies=(Remedy(f"a Python of these, or a torch that has wheels for {minor}"),),
                sources=own[0].source,
            )
            return


def _asked(case: Case, matrix: Matrix) -> Iterator[Asked]:
    package = case.scope.package("torch")
    wanted = package.version.text if package is not None and package.version is not None else ""
    if package is not None and wanted.startswith("=="):
        yield Asked(f"torch {wanted[2:]}", wanted, Evidence(f"torch{wanted}", package.location))
    for note in case.facts.notes:
        if _INSTALLS.search(note) is None:
            continue
        for match in _PINNED.finditer(note):
            yield Asked(f"torch {match[1]}", f"=={match[1]}", Evidence(note, "notes"))
        index = _INDEX.search(note)
        if index is not None and _BARE.search(note[: index.start()]):
            for row in matrix.claims("torch", "index", key=index[1]):
                what = f"the index {index[1]} (torch {row.claim.value})"
                yield Asked(what, row.claim.value, Evidence(note, "notes"))


def _meets(claim: Claim, asked: Asked) -> bool:
    """Tell whether releases of a claim's range may be among those that are asked for."""
    until = f",<{claim.until}" if claim.until else ""
    span = Version(f">={claim.since}{until}")
    exact = Version.maybe(asked.spec.removeprefix("==")) if asked.spec.startswith("==") else None
    if exact is not None:
        return admits(span.text, exact) is True
    return admits(asked.spec, span) is not False


def _platforms(case: Case) -> tuple[str, ...]:
    """The systems that this one may be."""
    system, arch = case.facts.host.os.value, case.facts.host.arch
    if system is None:
        return (*_SYSTEMS, "linux", "aarch64")
    if system.id in _SYSTEMS and case.facts.host.platform.value != "wsl2":
        return (system.id,)
    return ("aarch64",) if arch.is_known and architecture(case) == "aarch64" else ("linux",)


RULES: tuple[Rule, ...] = (asked_torch_has_no_wheel,)
