"""What people and machines read of a diagnosis: one file a format, `render` and `render_fleet`.

Belongs here: wording and layout. Does not belong here: judging, computing, printing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module

from doctor.facts import Facts
from doctor.findings import Diagnosis, Finding


@dataclass(frozen=True)
class Hidden:
    """A finding that a person's ignore list keeps out, with the reason given there."""

    target: str
    finding: Finding
    reason: str
    until: str = ""


@dataclass(frozen=True)
class Report:
    """One host's facts with the diagnosis made from them; `source` names what was examined.

    `paths` are the files that the facts came from, none for a live host; `name` tells a
    host from others of its fleet. `baseline` holds the fingerprints of findings that an
    earlier report had (None: no baseline was named); `hidden` is what the ignore list took
    out; `notes` are lines for the reader about this run.
    """

    facts: Facts
    diagnosis: Diagnosis
    source: str = "this host"
    name: str = ""
    paths: tuple[str, ...] = ()
    baseline: frozenset[str] | None = None
    hidden: tuple[Hidden, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Unreadable:
    """A file of a fleet from which no facts could be read, and why."""

    name: str
    path: str
    reason: str


@dataclass(frozen=True)
class Fleet:
    """Reports of many hosts, their facts cut down to what the ladder shows."""

    source: str
    hosts: tuple[Report, ...]
    unreadable: tuple[Unreadable, ...] = ()


@dataclass(frozen=True)
class Style:
    """How the reader sees it: columns, and whether escape codes for colour are understood.

    `quiet` asks for the verdict and its cause alone, `verbose` for all there is. `cut` says
    that what is wider than the columns would be wrapped, as terminals do.
    """

    width: int = 100
    colour: bool = False
    verbose: bool = False
    quiet: bool = False
    cut: bool = False


Renderer = Callable[[Report, Style], str]
FleetRenderer = Callable[[Fleet, Style], str]

# Name → module with `render(report, style)`, and with `render_fleet(fleet, style)`.
FORMATS: dict[str, str] = {
    "text": "doctor.report.text",
    "json": "doctor.report.json_v1",
    "sarif": "doctor.report.sarif",
    "junit": "doctor.report.junit",
    "markdown": "doctor.report.markdown",
    "html": "doctor.report.html",
    "github": "doctor.report.annotations",
    "prometheus": "doctor.report.prometheus",
    "baseline": "doctor.report.baseline",
}
FLEET_FORMATS: dict[str, str] = {
    **FORMATS,
    "text": "doctor.report.fleet",
    "markdown": "doctor.report.fleet_markdown",
    "html": "doctor.report.fleet_html",
}


def renderer(name: str) -> Renderer:
    """The `render` of a format; imported only when it is asked for."""
    render: Renderer = import_module(FORMATS[name]).render
    return render


def fleet_renderer(name: str) -> FleetRenderer:
    """The `render_fleet` of a format; imported only when it is asked for."""
    render: FleetRenderer = import_module(FLEET_FORMATS[name]).render_fleet
    return render
