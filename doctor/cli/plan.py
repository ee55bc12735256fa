"""`doctor plan`."""

from __future__ import annotations

import sys

import click

from doctor.cli.provisioning import on_a_service, say, with_lock


@click.command("plan")
@click.argument("profile", metavar="PROFILE|FILE")
@on_a_service
@with_lock
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text")
@click.option("-v", "--verbose", is_flag=True, help="Also what changes in files.")
@click.pass_context
def command(
    ctx: click.Context,
    profile: str,
    user: bool,
    on: str,
    ssh_config: str,
    lock: str,
    offline: str,
    form: str,
    verbose: bool,
) -> None:
    """Say what `apply` would change, why, and how it can be taken back. Changes nothing.

    \b
    Examples:
      doctor plan llamacpp-cpu --user
      doctor plan ./mine.yaml --on ssh://root@gpu1 -v
      doctor plan llamacpp-cpu --user --format json > plan.json

    Exit codes: 0 it can be applied, 1 something stands in the way.
    """
    from doctor.errors import ExitCode
    from doctor.matrix import load_matrix
    from doctor.provision.asked import Asked, read_order
    from doctor.provision.order import prepare
    from doctor.report.output import terminal_style
    from doctor.report.plan import render_json, render_text

    order = read_order(Asked(profile, user, on, ssh_config, lock, offline), say)
    plan = prepare(order, load_matrix()).plan
    style = terminal_style(sys.stdout, verbose)
    click.echo(render_json(plan) if form == "json" else render_text(plan, style), nl=False)
    ctx.exit(int(ExitCode.NO if plan.blockers else ExitCode.OK))
