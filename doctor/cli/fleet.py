"""`doctor fleet`: what is kept of many machines."""

from __future__ import annotations

import sys

import click

from doctor.cli.once import OnceGroup


@click.group("fleet", cls=OnceGroup)
def command() -> None:
    """Snapshots of many machines, as `doctor check --inventory INV --keep DIR` keeps them."""


@command.command("diff")
@click.argument("before", metavar="BEFORE")
@click.argument("after", metavar="AFTER")
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text")
@click.option("-v", "--verbose", is_flag=True, help="All hosts by name.")
@click.pass_context
def diff(ctx: click.Context, before: str, after: str, form: str, verbose: bool) -> None:
    """Say what has changed between two folders of snapshots.

    \b
    Examples:
      doctor fleet diff before/ after/
      doctor fleet diff before/ after/ --format json

    Exit codes: 0 nothing, 1 something has changed.
    """
    from doctor.errors import ExitCode
    from doctor.fleet_diff import compare_fleets
    from doctor.report.fleet_diff import render_json, render_text
    from doctor.report.output import emit, terminal_style

    found = compare_fleets(before, after)
    style = terminal_style(sys.stdout, verbose)
    emit(render_json(found) if form == "json" else render_text(found, style))
    ctx.exit(int(ExitCode.OK if found.is_empty else ExitCode.NO))
