"""Options of `doctor check`, as records: what to judge, what fails, how it is shown."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from doctor.cli.finite import Finite
from doctor.cli.records import Command, as_one, only_with

if TYPE_CHECKING:
    from pathlib import Path

    from doctor.examine import Sources
    from doctor.gate import Gate
    from doctor.report import Style
    from doctor.report.redact import Redactor

# The keys of doctor.report.FORMATS, which a test compares; importing them would cost every --help.
FORMATS = (
    "text",
    "json",
    "sarif",
    "junit",
    "markdown",
    "html",
    "github",
    "prometheus",
    "baseline",
)

_NAMED = (
    click.option(
        "--facts", multiple=True, metavar="FILE", help="Judge a snapshot, report or case."
    ),
    click.option("--host", default="", metavar="LINE", help='Judge a host in words: "H100x8,...".'),
    click.option("--root", default="", metavar="DIR", help="Judge a mounted system; run nothing."),
    click.option("--python", multiple=True, metavar="PATH", help="Judge this Python environment."),
    click.option(
        "--image", default="", metavar="REF|FILE", help="Judge this image; run nothing of it."
    ),
    click.option(
        "--image-limit",
        type=Finite(1, 86400),
        default=1800,
        metavar="S",
        help="How long reading it may take.",
    ),
    click.option("--requirements", multiple=True, metavar="FILE", help="Judge what it asks for."),
    click.option("--dockerfile", multiple=True, metavar="FILE", help="Judge what it would build."),
    click.option("--compose", multiple=True, metavar="FILE", help="Judge its services."),
    click.option("--profile", default="", metavar="NAME|FILE", help="Judge what it wants."),
)
_GATES = (
    click.option(
        "--fail-on",
        type=click.Choice(["error", "warning", "info", "never"]),
        default="error",
        show_default=True,
        help="Exit 1 from this severity on.",
    ),
    click.option("--strict", is_flag=True, help="Exit 3 if any rule could not decide."),
    click.option("--allow-unknown", is_flag=True, help="Exit 0 where only facts are missing."),
    click.option("--baseline", default="", metavar="FILE", help="Fail only on what it lacks."),
    click.option(
        "--config", default="", metavar="FILE", help="The doctor.toml with the ignore list."
    ),
)
_SHOWN = (
    click.option("--format", "form", type=click.Choice(FORMATS), default="text", show_default=True),
    click.option(
        "-o", "outputs", multiple=True, metavar="FORMAT=FILE", help="Also write this file."
    ),
    click.option("--no-redact", is_flag=True, help="Keep names of people and machines."),
    click.option("-q", "--quiet", is_flag=True, help="Only each target's verdict and its cause."),
    click.option("-v", "--verbose", is_flag=True, help="Also notes, sources and missing facts."),
)


@dataclass(frozen=True)
class Named:
    """The host and what is to be judged on it, as they were given."""

    facts: tuple[str, ...] = ()
    host: str = ""
    root: str = ""
    python: tuple[str, ...] = ()
    image: str = ""
    image_limit: float = 1800.0
    requirements: tuple[str, ...] = ()
    dockerfile: tuple[str, ...] = ()
    compose: tuple[str, ...] = ()
    profile: str = ""

    def sources(self, files: tuple[str, ...]) -> Sources:
        """Where facts come from; `files` are plans that tell by their names what they are."""
        from doctor.examine import Plans, Sources, plans_of

        plans = Plans(self.requirements, self.dockerfile, self.compose, self.profile)
        return Sources(
            self.facts,
            self.root,
            self.python,
            self.host,
            self.image,
            self.image_limit,
            plans + plans_of(files),
        )


@dataclass(frozen=True)
class Gates:
    """What makes the command fail."""

    fail_on: str = "error"
    strict: bool = False
    allow_unknown: bool = False
    baseline: str = ""
    config: str = ""

    def gate(self) -> Gate:
        """What is let pass today: the baseline and the ignore list."""
        from datetime import date

        from doctor.gate import gate

        return gate(self.config, self.baseline, date.today())


@dataclass(frozen=True)
class Shown:
    """In which form, where, and how much."""

    form: str = "text"
    outputs: tuple[str, ...] = ()
    no_redact: bool = False
    quiet: bool = False
    verbose: bool = False

    def style(self) -> Style:
        """How the terminal wants it."""
        from doctor.report.output import terminal_style

        return terminal_style(sys.stdout, self.verbose, self.quiet)

    def redactor(self) -> Redactor | None:
        """What takes names out, None if they may stay."""
        from doctor.report.redact import redactor

        return None if self.no_redact else redactor()

    def write(self, report: Any, files: tuple[tuple[str, Path], ...]) -> None:
        """Print a report and write it to the files."""
        from doctor.report.output import emit, write_all

        emit(write_all(report, self.form, files, self.style()))


def on_sources(command: Command) -> Command:
    """Add the options that say what is judged, as one `named`."""
    return as_one(only_with("image", "image_limit")(command), "named", Named, _NAMED)


def with_gates(command: Command) -> Command:
    """Add the options that say what fails, as one `gates`."""
    return as_one(command, "gates", Gates, _GATES)


def as_shown(command: Command) -> Command:
    """Add the options of a report, as one `shown`."""
    return as_one(command, "shown", Shown, _SHOWN)
