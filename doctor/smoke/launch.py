"""The command, environment and settings that start an engine's server. Pure.

What to say to which version of which engine stands in the matrix (`launch` and flag
claims). What a version cannot take is refused here, with the reason, and not passed on for
the engine to choke on or, worse, to ignore.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from doctor.errors import DoctorError, ExitCode, UsageError
from doctor.facts import Version
from doctor.matrix import Matrix
from doctor.matrix.launching import Launch
from doctor.smoke.flags import Standing, standing


class LaunchError(DoctorError):
    """The engine cannot be started as asked."""

    exit_code = ExitCode.FAILED


@dataclass(frozen=True)
class Wanted:
    """A server that is to be started.

    `args` are engine-neutral names with values; True and False set switches. `python` is
    the interpreter of the engine's environment, `bin` the folder of its commands,
    `install` that of an engine with a folder of its own. `offline` forbids downloads.
    """

    engine: str
    model: str
    version: Version | None = None
    args: Mapping[str, Any] = field(default_factory=dict)
    python: str = "python3"
    bin: str = ""
    install: str = ""
    offline: bool = True
    with_metrics: bool = True


@dataclass(frozen=True)
class LaunchPlan:
    """How to start it: `settings` are places of a JSON file and their values, if it has one.

    `config` is the text of that file, where the original is known. `env` is to be added to the
    environment; `notes` say what is not certain.
    """

    row: Launch
    argv: tuple[str, ...]
    env: dict[str, str] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    config: str = ""


def launch_row(engine: str, version: Version | None, matrix: Matrix) -> Launch:
    """The row that says how to start it. Raises UsageError or LaunchError."""
    row = matrix.launch(engine, version)
    if row is not None:
        return row
    rows = [row for row in matrix.launches if row.engine == engine]
    if not rows:
        known = ", ".join(dict.fromkeys(row.engine for row in matrix.launches))
        raise UsageError(f"how to start {engine[:60]!r} is not known", f"engines: {known}")
    raise LaunchError(
        f"how to start {engine} {version} is not known, only from {rows[0].since} on",
        "start it yourself and give its URL",
    )


def plan_launch(wanted: Wanted, matrix: Matrix) -> LaunchPlan:
    """Build the command. Raises LaunchError with every reason why it cannot be."""
    row = launch_row(wanted.engine, wanted.version, matrix)
    builder = _Builder(wanted, row, matrix)
    words = [*builder.command(), *builder.arguments()]
    if wanted.with_metrics:
        words += row.metrics_words
    if builder.refusals:
        version = f" {wanted.version}" if wanted.version else ""
        raise LaunchError(
            f"{wanted.engine}{version} cannot be started so: {'; '.join(builder.refusals)}",
            "leave out or change what is refused",
        )
    env = {**row.env, **(row.offline_env if wanted.offline else {})}
    config = _config(row, builder.settings)
    return LaunchPlan(row, tuple(words), env, builder.settings, tuple(builder.notes()), config)


def _config(row: Launch, settings: Mapping[str, Any]) -> str:
    """The engine's file of settings with ours in it, "" where its original is not known."""
    if not row.config:
        return ""
    return json.dumps(with_settings(json.loads(row.config), settings), indent=1) + "\n"


class _Builder:
    """Turns the arguments of one launch into words and settings, and collects refusals."""

    def __init__(self, wanted: Wanted, row: Launch, matrix: Matrix) -> None:
        self._wanted = wanted
        self._row = row
        self._matrix = matrix
        self._noted: list[str] = []
        self.refusals: list[str] = []
        self.settings: dict[str, Any] = {}
        if row.settings:
            self.settings[row.settings["model"]] = wanted.model

    def command(self) -> list[str]:
        places = {
            "{python}": self._wanted.python,
            "{bin}": self._wanted.bin,
            "{install}": self._wanted.install,
        }
        words = []
        for template in self._row.command:
            word = template
            for place, value in places.items():
                word = word.replace(place, value)
            # Last, so that nothing in the model's name is taken for a place.
            words.append(self._wanted.model if template == "{model}" else word)
        self._expect_plain("model", self._wanted.model)
        return words

    def arguments(self) -> Iterator[str]:
        for name, value in self._wanted.args.items():
            if value is None:
                continue
            if name in self._row.refused:
                self.refusals.append(f"{name}: {self._row.refused[name]}")
            elif name in self._row.settings:
                self._expect_form(name, value)
                self.settings[self._row.settings[name]] = value
            elif isinstance(value, bool):
                yield from self._switch(name, value)
            elif name in self._row.arguments:
                yield from self._valued(name, value)
            else:
                self.refusals.append(f"{name}: {self._row.engine} has nothing like it")

    def _switch(self, name: str, value: bool) -> Iterator[str]:
        words = (self._row.on if value else self._row.off).get(name)
        if words is None:
            state = "on" if value else "off"
            self.refusals.append(f"{name}: {self._row.engine} cannot turn it {state}")
            return
        for word in words:
            if word.startswith("--"):
                self._check(word)
            yield word

    def _valued(self, name: str, value: Any) -> Iterator[str]:
        factor = self._wanted.args.get(self._row.multiplied.get(name, ""), 1)
        text = str(value * factor if isinstance(value, int) else value)
        self._expect_plain(name, text)
        for flag in self._row.arguments[name]:
            self._check(flag)
            yield flag
            yield text

    def _expect_plain(self, name: str, text: str) -> None:
        """A value must not be taken for a flag, nor end early."""
        is_number = text[1:].replace(".", "", 1).isdecimal()
        if (text.startswith("-") and not is_number) or "\0" in text or not text:
            self.refusals.append(f"{name}: {text[:40]!r} is not a value")

    def _expect_form(self, name: str, value: Any) -> None:
        form = self._row.forms.get(name)
        if form and not re.fullmatch(form, str(value)):
            self.refusals.append(f"{name}: {str(value)[:40]!r} is nothing that it takes")

    def _check(self, flag: str) -> None:
        # The embedded server is our own, with flags of our own.
        if self._row.engine == "xllamacpp":
            return
        owner = self._row.flags_of or self._row.engine
        found: Standing = standing(self._matrix, owner, _final(self._wanted.version), flag)
        self.refusals += [found.refused] if found.refused else []
        self._noted += [found.note] if found.note else []

    def notes(self) -> Iterator[str]:
        version, last = self._wanted.version, self._row.verified_to
        if version is not None and last and version.newer_than(Version(last)) is True:
            yield f"{self._row.engine} {version} is newer than {last}, the last that is known"
        yield from dict.fromkeys(self._noted)


def _final(version: Version | None) -> Version | None:
    """The release that a pre-release leads to: its flags are that one's."""
    if version is None or not version.is_prerelease:
        return version
    return Version(".".join(map(str, version.release)))


def with_settings(config: dict[str, Any], settings: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of a JSON configuration with values put at places such as "A.B.0.c".

    Raises LaunchError if the file has no such place.
    """
    copy: dict[str, Any] = _copied(config)
    for place, value in settings.items():
        *way, last = place.split(".")
        node: Any = copy
        for part in way:
            node = _inside(node, part, place)
        if not isinstance(node, dict):
            raise LaunchError(
                f"the engine's configuration has no {place}",
                "is it another release than the profile means?",
            )
        node[last] = value
    return copy


def _inside(node: Any, part: str, place: str) -> Any:
    if isinstance(node, dict) and part in node:
        return node[part]
    if isinstance(node, list) and part.isdecimal() and int(part) < len(node):
        return node[int(part)]
    raise LaunchError(f"the engine's configuration has no {place}", "is it the right file?")


def _copied(node: Any) -> Any:
    if isinstance(node, dict):
        return {key: _copied(value) for key, value in node.items()}
    return [_copied(item) for item in node] if isinstance(node, list) else node
