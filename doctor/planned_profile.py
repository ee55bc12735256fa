"""A profile as an environment with its engine, before anything is resolved or installed."""

from __future__ import annotations

from dataclasses import replace

from doctor.facts import UNSTATED, Facts, Reading, Scope, Version, Workload, missing, seen
from doctor.facts.reading import Missing
from doctor.intake.formats.dockerfile import image_named
from doctor.intake.formats.requirements import required_package, requirement
from doctor.intake.wanted import Wanted, at_line, label_of_index, placed
from doctor.matrix import Matrix
from doctor.profile.read import find_profile
from doctor.profile.schema import Profile


def profile_facts(named: str, matrix: Matrix) -> Facts:
    """The environment and engine of a profile; raises UsageError for one that is not valid."""
    profile = find_profile(named)
    place = _Lines(named)
    install = profile.install
    found = [r for text in install.requirements if (r := requirement(text))]
    label = label_of_index(install.index)
    wanted = Wanted(
        packages=tuple(
            placed(required_package(r), place.name, place.of(r.name)) for r in found
        ),
        label=label,
        label_at=place.at("index:") if label else "",
        python=f"{install.python}.*" if install.python else "",
        python_at=place.at("python:"),
    )  # fmt: skip
    is_image = install.method == "container"
    scope = wanted.scope(profile.name, "container" if is_image else "venv")
    if is_image:
        scope = replace(scope, image=image_named(install.image, place.at("image:")))
    return Facts(scopes=(scope,), workloads=(_workload(profile, scope, place, matrix),))


class _Lines:
    """The lines of a profile that is a file; one that ships with doctor has only its name."""

    def __init__(self, named: str) -> None:
        is_file = "/" in named or named.endswith((".yaml", ".yml"))
        self.name = named if is_file else f"profile {named}"
        self._lines = open_lines(named) if is_file else []

    def of(self, word: str) -> int:
        """The first line that holds a word, not counting comments."""
        kept = (line.partition(" #")[0] for line in self._lines)
        return next((n for n, line in enumerate(kept, 1) if word in line and line[:1] != "#"), 1)

    def at(self, word: str) -> str:
        """That line as a place."""
        return at_line(self.name, self.of(word)) if self._lines else self.name


def open_lines(path: str) -> list[str]:
    """The lines of a file that a person named."""
    from doctor.intake.detect import read_text

    return read_text(path).split("\n")


def _workload(profile: Profile, scope: Scope, place: _Lines, matrix: Matrix) -> Workload:
    engine = matrix.canonical(profile.engine.name) or profile.engine.name
    stated = profile.engine.version
    version = Version.maybe(stated.removeprefix("==") if stated.startswith("==") else stated)
    known: Reading[Version] = seen(version, place.at("engine:")) if version else UNSTATED
    package = scope.package(profile.engine.name, engine)
    if not known.is_known and package is not None and package.version is not None:
        known = seen(package.version, package.location)
    args: dict[str, object] = dict(profile.serving.args)
    if profile.model.source != "embedded" and profile.model.id:
        args.setdefault("model", profile.model.id)
    return Workload(
        id=profile.name,
        engine=engine,
        scope=scope.id,
        version=known if known.is_known else missing(Missing.NOT_STATED),
        args=seen(args, place.at("args:")) if args else UNSTATED,
    )
