"""`doctor plan`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from doctor.cli.fleet_options import FleetOptions, on_a_fleet
from doctor.cli.fleet_verbs import ask_fleet, orders_for
from doctor.cli.provisioning import ServiceOptions, on_a_locked_service, say

if TYPE_CHECKING:
    from doctor.provision.asked import Asked
    from doctor.provision.plan import Plan


@click.command("plan")
@click.argument("profile", metavar="PROFILE|FILE")
@on_a_locked_service
@on_a_fleet
@click.option("--write-lock", default="", metavar="FILE", help="Write the driver's lock here.")
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text")
@click.option("-v", "--verbose", is_flag=True, help="Also what changes in files.")
@click.pass_context
def command(
    ctx: click.Context,
    profile: str,
    service: ServiceOptions,
    fleet: FleetOptions,
    write_lock: str,
    form: str,
    verbose: bool,
) -> None:
    """Say what `apply` would change, why, and how it can be taken back. Changes nothing.

    \b
    Examples:
      doctor plan llamacpp-cpu --user
      doctor plan ./mine.yaml --on ssh://root@gpu1 -v
      doctor plan llamacpp-cpu --user --format json > plan.json
      doctor plan llamacpp-cpu --inventory hosts.ini --limit gpu
      doctor plan nvidia-driver --on ssh://root@gpu1 --write-lock hosts/gpu1.lock

    Exit codes: 0 it can be applied, 1 something stands in the way.
    """
    from doctor.errors import ExitCode
    from doctor.matrix import load_matrix
    from doctor.provision.asked import read_order
    from doctor.provision.order import prepare
    from doctor.report.output import terminal_style
    from doctor.report.plan import render_json, render_text

    if fleet.inventory:
        orders = orders_for("plan", profile, fleet, service, write_lock)
        ask_fleet(ctx, orders, fleet, form, verbose)
    asked = service.asked(profile)
    _expect_driver(write_lock, asked)
    plan = prepare(read_order(asked, say), load_matrix()).plan
    if write_lock:
        _write_lock(plan, write_lock)
    style = terminal_style(sys.stdout, verbose)
    click.echo(render_json(plan) if form == "json" else render_text(plan, style), nl=False)
    ctx.exit(int(ExitCode.NO if plan.blockers else ExitCode.OK))


def _expect_driver(write_lock: str, asked: Asked) -> None:
    """Raise UsageError for a lock of a driver where none is asked for."""
    from doctor.errors import UsageError

    if write_lock and not asked.wants_driver:
        raise UsageError("this plan has no driver to lock", "stack locks: doctor profile lock")


def _write_lock(plan: Plan, path: str) -> None:
    """Write the driver's packages by hash; raises UsageError if the plan names none."""
    from pathlib import Path

    from doctor.errors import UsageError
    from doctor.provision.driver.host_lock import write_host_lock

    driver = plan.goal.driver
    if driver is None or not driver.packages:
        raise UsageError("this plan has no driver to lock", "stack locks: doctor profile lock")
    write_host_lock(Path(path), driver)
