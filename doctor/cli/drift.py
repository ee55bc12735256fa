"""`doctor drift`."""

from __future__ import annotations

import sys

import click

from doctor.cli.fleet_options import FleetOptions, on_a_fleet
from doctor.cli.fleet_verbs import ask_fleet, orders_for
from doctor.cli.provisioning import ServiceOptions, on_a_service


@click.command("drift")
@click.argument("profile", metavar="PROFILE|FILE")
@on_a_service
@on_a_fleet
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text")
@click.option("-v", "--verbose", is_flag=True, help="Also notes of the judge.")
@click.pass_context
def command(
    ctx: click.Context,
    profile: str,
    service: ServiceOptions,
    fleet: FleetOptions,
    form: str,
    verbose: bool,
) -> None:
    """Say what of a service is no longer what was applied. Reads only.

    Every file of the release and the model is hashed, and the running process is compared
    with what it was started as.

    \b
    Examples:
      doctor drift llamacpp-cpu --user
      doctor drift llamacpp-cpu --inventory hosts.ini
      doctor drift llamacpp-cpu --on docker://engine --format json

    Exit codes: 0 as applied, 1 drifted, 2 it was never applied.
    """
    from doctor.errors import ExitCode
    from doctor.matrix import load_matrix
    from doctor.provision.drift import find_drift
    from doctor.report.drift import render_json, render_text
    from doctor.report.output import terminal_style

    if fleet.inventory:
        ask_fleet(ctx, orders_for("drift", profile, fleet, service), fleet, form, verbose)
    asked = service.asked(profile)
    drift = find_drift(asked.target, asked.service, asked.user, load_matrix())
    style = terminal_style(sys.stdout, verbose)
    click.echo(render_json(drift) if form == "json" else render_text(drift, style), nl=False)
    ctx.exit(int(ExitCode.OK if drift.is_clean else ExitCode.NO))
