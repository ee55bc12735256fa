"""What is asked of the resolver, what it proposes, and what it answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from doctor.facts import CodeTarget, Facts, Specifier, Version
from doctor.findings import Finding, Severity
from doctor.matrix.model import Release

PROVEN, POSSIBLE, REFUSED = "proven", "possible", "refused"


@dataclass(frozen=True)
class Ask:
    """An engine in some versions, or an aim; `args` are engine-neutral arguments.

    `artifact` is wheel, image or source, "" for any; `model` holds what is known of the
    model's configuration. Pre-releases are offered only if `spec` names one.
    """

    engine: str = ""
    spec: Specifier | None = None
    goal: str = ""
    artifact: str = ""
    args: tuple[tuple[str, Any], ...] = ()
    model: tuple[tuple[str, Any], ...] = ()
    devices: tuple[str, ...] = ()

    def admits(self, version: Version, has_finals: bool = True) -> bool:
        """Tell whether the versions asked for hold this one.

        A pre-release counts if it was named, or if the engine has no final release.
        """
        clauses = self.spec.clauses if self.spec is not None else ()
        named = any(bound.is_prerelease for _, bound in clauses)
        if version.is_prerelease and has_finals and not named:
            return False
        return self.spec is None or self.spec.admits(version) is True


@dataclass(frozen=True)
class Torch:
    """A torch build: `label` is its variant, "" for the default one; `index` where it is."""

    version: Version
    cuda: Version | None
    label: str = ""
    build: str = ""
    index: str = ""
    unseen: str = ""


@dataclass(frozen=True)
class Candidate:
    """One way to run an engine: a build with all that must go with it.

    `lane` tells ways apart of which each is worth an offer of its own; `tags` are the
    wheel tags of the file, `code` its GPU code where no release row tells it; `unseen` says
    what about it was never observed; `compat` is the CUDA version of a
    forward-compatibility library that the image would use.
    """

    engine: str
    kind: str
    lane: str
    vendor: str
    package: str
    version: Version | None
    release: Release | None = None
    variant: str = ""
    cuda: Version | None = None
    torch: Torch | None = None
    python: Version | None = None
    artifact: str = ""
    index: str = ""
    extra_index: str = ""
    tags: tuple[str, ...] = ()
    code: tuple[CodeTarget, ...] = ()
    libc: Version | None = None
    env: tuple[tuple[str, str], ...] = ()
    compat: Version | None = None
    unseen: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    extra: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Stack:
    """A proposal in the terms in which people act on it.

    `python` is the interpreter to use, `pythons` those that the artefact accepts;
    `torch_build` the CUDA of torch ("cu128"); `index` where engine or torch is, "" if the
    default index has both. `env` and `flags` must be set; `driver_floor` and
    `driver_ceiling` bound the drivers that run this build on these cards.
    """

    engine: str
    version: str
    kind: str
    artifact: str
    cuda: str = ""
    torch: str = ""
    torch_build: str = ""
    python: str = ""
    pythons: str = ""
    index: str = ""
    extra_index: str = ""
    env: tuple[tuple[str, str], ...] = ()
    flags: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    driver_floor: str = ""
    driver_ceiling: str = ""
    parts: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Judged:
    """A candidate with its judgement: `state` is proven, possible or refused.

    `lacks` names what is missing to prove a possible one; `stack` is what to do, for offers.
    """

    candidate: Candidate
    state: str
    findings: tuple[Finding, ...] = ()
    lacks: tuple[str, ...] = ()
    stack: Stack | None = None

    @property
    def warnings(self) -> tuple[Finding, ...]:
        """What works and will bite."""
        return tuple(f for f in self.findings if f.severity is Severity.WARNING)


@dataclass(frozen=True)
class Unlock:
    """The smallest change of one kind that makes a newer stack work, and that stack."""

    change: str
    kind: str
    gains: Judged
    commands: tuple[str, ...] = ()
    reboot: bool = False


@dataclass(frozen=True)
class Choice:
    """Why an engine was chosen for an aim."""

    engine: str
    goal: str
    why: str
    sources: tuple[str, ...] = ()


@dataclass(frozen=True)
class Resolution:
    """The answer: offers, best first; what was refused, newest first; what would unlock more.

    `host` are faults of the host that stand against every stack.
    """

    facts: Facts
    ask: Ask
    engine: str
    offers: tuple[Judged, ...] = ()
    refused: tuple[Judged, ...] = ()
    unlocks: tuple[Unlock, ...] = ()
    choice: Choice | None = None
    host: tuple[Finding, ...] = ()
    matrix_as_of: str = ""
    notes: tuple[str, ...] = ()

    @property
    def verdict(self) -> str:
        """Return "ok" if a stack is proven, "possible" if one may work, else "none"."""
        if not self.offers:
            return "none"
        return "ok" if self.offers[0].state == PROVEN else "possible"
