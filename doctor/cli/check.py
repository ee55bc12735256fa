"""`doctor check`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from doctor.cli.check_options import (
    FORMATS,
    Gates,
    Named,
    Shown,
    as_shown,
    on_sources,
    with_gates,
)
from doctor.cli.fleet_options import FleetOptions, on_a_fleet

if TYPE_CHECKING:
    from doctor.gate import Gate
    from doctor.report import Fleet
    from doctor.report.redact import Redactor


@click.command("check")
@click.argument("files", nargs=-1, metavar="[FILE]...")
@on_sources
@click.option("--facts-dir", default="", metavar="DIR", help="Judge a fleet: one file a host.")
@on_a_fleet
@click.option("--engine", default="", metavar="NAME[==VER]", help="Judge whether it could run.")
@click.option("--model", default="", metavar="NAME", help="The model that it should serve.")
@with_gates
@as_shown
@click.pass_context
def command(
    ctx: click.Context,
    files: tuple[str, ...],
    named: Named,
    facts_dir: str,
    fleet: FleetOptions,
    engine: str,
    model: str,
    gates: Gates,
    shown: Shown,
) -> None:
    """Judge this host, or one that a file describes: one cause, its evidence, its remedy.

    A FILE is a requirements, project or lock file, a Dockerfile or a compose file: what it
    would install is judged on the host that is named.

    \b
    Examples:
      doctor check
      doctor check --python ./.venv --engine vllm
      doctor check --facts report.yaml --format json
      doctor check --host "L40Sx2,driver=580.95,python=3.12" --engine vllm==0.33.0
      doctor check --root /mnt/image -o json=report.json -o html=report.html
      doctor check --image vllm/vllm-openai:v0.33.0 --host "L40Sx2,driver=550.54"
      doctor check requirements.txt Dockerfile --host "H100x8,driver=550.54"
      doctor check --inventory hosts.ini --limit gpu -o html=fleet.html
    """
    from doctor.checkup import check, exit_code, fleet_exit_code
    from doctor.report.output import parse_outputs

    written = parse_outputs(shown.outputs, FORMATS)
    allowed = gates.gate()
    names, sources = shown.redactor(), named.sources(files)
    if facts_dir or fleet.inventory:
        _need_alone(sources.are_named or bool(facts_dir and fleet.inventory))
        many = _judged(facts_dir, fleet, (engine, model, allowed, names), shown)
        shown.write(many, written)
        ctx.exit(int(fleet_exit_code(many, gates.fail_on, gates.strict)))
    found = check(sources, engine, model)
    # Redaction comes first: ignored subjects and baselines are written as reports show them.
    report = allowed.apply(names.report(found) if names else found)
    shown.write(report, written)
    asked = (sources.are_named or bool(engine)) and not gates.allow_unknown
    ctx.exit(int(exit_code(report, gates.fail_on, gates.strict, asked)))


def _need_alone(has_more: bool) -> None:
    """Raise UsageError if something else is asked for beside a fleet."""
    from doctor.errors import UsageError

    if has_more:
        raise UsageError("a fleet stands alone", "leave --facts, --root and the like out")


def _judged(
    facts_dir: str,
    fleet: FleetOptions,
    asked: tuple[str, str, Gate, Redactor | None],
    shown: Shown,
) -> Fleet:
    """Many hosts, from a folder or from an inventory, with progress."""
    from doctor.fleets import Question, judge_folder, judge_inventory
    from doctor.report.progress import Progress

    question = Question(*asked)
    with Progress(sys.stderr, shown.style().width, "hosts") as progress:
        if facts_dir:
            return judge_folder(facts_dir, question, progress)
        return judge_inventory(fleet.reach(), question, progress)
