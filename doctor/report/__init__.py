"""What people and machines read of a diagnosis. `render(report, style) -> str`, one file a format.

Belongs here: wording and layout. Does not belong here: judging, computing, printing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module

from doctor.facts import Facts
from doctor.findings import Diagnosis


@dataclass(frozen=True)
class Report:
    """One host's facts with the diagnosis made from them; `source` names what was examined."""

    facts: Facts
    diagnosis: Diagnosis
    source: str = "this host"


@dataclass(frozen=True)
class Style:
    """How the reader sees it: columns, and whether escape codes for colour are understood."""

    width: int = 100
    colour: bool = False
    verbose: bool = False


Renderer = Callable[[Report, Style], str]

FORMATS: dict[str, str] = {
    "text": "doctor.report.text",
    "json": "doctor.report.json_v1",
}


def renderer(name: str) -> Renderer:
    """The `render` of a format; imported only when it is asked for."""
    render: Renderer = import_module(FORMATS[name]).render
    return render
