"""plan, drift and apply with --inventory: one report of many machines."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from doctor.cli.fleet_options import Batches, FleetOptions
from doctor.cli.provisioning import ServiceOptions

if TYPE_CHECKING:
    from pathlib import Path

    from doctor.provision.fleet import FleetRun, Orders
    from doctor.provision.fleet_inventory import FleetHost

_LIMITS = {"plan": 600.0, "drift": 600.0, "apply": 3600.0}


def ask_fleet(
    ctx: click.Context, orders: Orders, fleet: FleetOptions, form: str, verbose: bool
) -> None:
    """Plan, or look for drift, on all machines; ends the command."""
    from doctor.provision.fleet import ask_all

    folder = _folder(fleet)
    hosts = _hosts(orders, fleet, folder)
    _leave(ctx, ask_all(hosts, orders), folder, form, verbose)


def orders_for(
    verb: str, profile: str, fleet: FleetOptions, service: ServiceOptions, other: object = ""
) -> Orders:
    """What each machine is asked. Raises UsageError for a single machine beside a fleet."""
    from doctor.errors import UsageError
    from doctor.provision.fleet import Orders
    from doctor.report.fleet_run import RowProgress

    if service.on or service.ssh_config or other:
        raise UsageError(
            "--inventory goes through its machines alone", "leave --on, --ssh-config and files out"
        )
    note = "" if verb == "drift" else _without_lock(profile, service)
    limit = fleet.host_limit or _LIMITS[verb]
    rows = RowProgress(sys.stderr)
    return Orders(verb, profile, service.words(), fleet.forks, limit, rows, note)


def _without_lock(profile: str, service: ServiceOptions) -> str:
    """What is to be said where machines may get different packages for want of a lock.

    A profile or lock that cannot be read raises UsageError here, and not in every row.
    """
    from doctor.profile.read import find_profile
    from doctor.provision.asked import lock_for

    asked, wanted = service.asked(profile), find_profile(profile)
    locked = asked.wants_driver or lock_for(asked, wanted, lambda _: None)
    if locked or wanted.install.method != "venv":
        return ""
    text = f"no lock of {profile}: each machine gets what its index offers then"
    return f"{text}. First: doctor profile lock {profile}"


def _folder(fleet: FleetOptions) -> Path:
    folder = fleet.folder()
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder


def _hosts(orders: Orders, fleet: FleetOptions, folder: Path) -> tuple[FleetHost, ...]:
    from doctor.provision.fleet_inventory import read_inventory

    hosts = read_inventory(fleet.inventory, fleet.limit, folder)
    if orders.note:
        click.echo(orders.note, err=True)
    return hosts


def _leave(ctx: click.Context, run: FleetRun, folder: Path, form: str, verbose: bool) -> None:
    """Keep the report, print it, and end with its code."""
    from doctor.provision.fleet_apply import INTERRUPTED
    from doctor.report.fleet_run import render_json, render_text
    from doctor.report.output import emit, terminal_style, write_whole

    kept = folder / f"{run.verb}.json"
    write_whole(kept, render_json(run))
    emit(
        render_json(run)
        if form == "json"
        else render_text(run, terminal_style(sys.stdout, verbose))
    )
    click.echo(f"the rows are kept in {kept}", err=True)
    if run.stopped == INTERRUPTED:
        raise KeyboardInterrupt
    ctx.exit(int(run.code))


def apply_fleet(
    ctx: click.Context,
    orders: Orders,
    fleet: FleetOptions,
    batches: Batches,
    yes: bool,
    form: str,
    verbose: bool,
) -> None:
    """Plan on all machines, show, ask, then apply in batches; ends the command."""
    from dataclasses import replace

    from doctor.provision.fleet import CHANGES, ask_all
    from doctor.provision.fleet_apply import Hooks, apply_all, sizes

    folder = _folder(fleet)
    hosts = _hosts(orders, fleet, folder)
    sizes(batches.serial, 1)
    _need_files((batches.drain, batches.undrain))
    planned = ask_all(hosts, replace(orders, verb="plan", limit_s=fleet.host_limit or 600.0))
    if not any(row.state == CHANGES for row in planned.rows):
        _leave(ctx, replace(planned, verb="apply"), folder, form, verbose)
    _confirm(planned, yes, verbose)
    hooks = Hooks(folder / "hooks", batches.drain, batches.undrain)
    sure = replace(orders, arguments=(*orders.arguments, "--yes"))
    run = apply_all(hosts, planned, sure, hooks, batches.serial)
    _leave(ctx, run, folder, form, verbose)


def _need_files(paths: tuple[str, str]) -> None:
    from pathlib import Path

    from doctor.errors import UsageError

    for path in paths:
        if path and not Path(path).is_file():
            raise UsageError(f"{path[:200]}: no such task file", "name a file of Ansible tasks")


def _confirm(planned: FleetRun, yes: bool, verbose: bool) -> None:
    """Show the plans and ask; raises UsageError where nobody can answer."""
    from doctor.errors import UsageError
    from doctor.report.fleet_run import render_text
    from doctor.report.output import terminal_style

    click.echo(render_text(planned, terminal_style(sys.stderr, verbose)), err=True)
    if yes:
        return
    if not sys.stdin.isatty():
        raise UsageError("nobody is here to be asked", "look at the plans, then add --yes")
    if not click.confirm("Carry these out?", err=True):
        raise click.Abort
