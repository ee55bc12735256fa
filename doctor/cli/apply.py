"""`doctor apply`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from doctor.cli.fleet_options import Batches, FleetOptions, in_batches, on_a_fleet
from doctor.cli.fleet_verbs import apply_fleet, orders_for
from doctor.cli.provisioning import ServiceOptions, desk_for, on_a_locked_service, say

if TYPE_CHECKING:
    from doctor.provision.apply import Outcome
    from doctor.provision.asked import Asked
    from doctor.provision.order import Prepared
    from doctor.provision.plan import Plan
    from doctor.provision.session import Desk


@click.command("apply")
@click.argument("profile", metavar="PROFILE|FILE")
@on_a_locked_service
@on_a_fleet
@in_batches
@click.option("--plan", "plan_file", default="", metavar="FILE", help="Refuse another plan.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--check", is_flag=True, help="Only let every role say what it would change.")
@click.option("--resume", is_flag=True, help="Take up the run that was interrupted.")
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text")
@click.option("-v", "--verbose", is_flag=True, help="Also what changes in files.")
@click.pass_context
def command(
    ctx: click.Context,
    profile: str,
    service: ServiceOptions,
    fleet: FleetOptions,
    batches: Batches,
    plan_file: str,
    yes: bool,
    check: bool,
    resume: bool,
    form: str,
    verbose: bool,
) -> None:
    """Make a machine what a profile wants, and prove it with a known answer.

    The engine gets a folder of its own for each lock; `current` leads to the one in use, and
    the one before it is kept. If a layer fails, what was there before is brought back.

    \b
    Examples:
      doctor apply llamacpp-cpu --user
      doctor apply llamacpp-cpu --on ssh://root@host --yes
      doctor apply llamacpp-cpu --inventory hosts.ini --serial 1,25%,100% --drain lb-out.yml
      doctor plan vllm-cpu --format json > plan.json; doctor apply vllm-cpu --plan plan.json

    Exit codes: 0 done or nothing to do, 1 refused, 4 a step failed, 5 a reboot or a person
    is needed, 130 interrupted.
    """
    from doctor.report.run import render_json, render_text

    if fleet.inventory:
        orders = orders_for("apply", profile, fleet, service, plan_file or check or resume)
        apply_fleet(ctx, orders, fleet, batches, yes, form, verbose)
    asked = service.asked(profile)
    desk = desk_for(asked)
    if resume:
        outcome = _taken_up(asked, desk, plan_file or check or service.lock or service.offline)
    else:
        prepared = _prepared(asked, desk, plan_file)
        if prepared.plan.is_empty or prepared.plan.blockers or check:
            ctx.exit(_without_change(prepared, form, check, verbose))
        _confirm(prepared.plan, yes, verbose)
        outcome = desk.apply(prepared)
    click.echo(render_json(outcome) if form == "json" else render_text(outcome), nl=False)
    ctx.exit(int(outcome.exit_code))


def _taken_up(asked: Asked, desk: Desk, has_more: object) -> Outcome:
    """Go on with the run that was interrupted; UsageError for anything that it does not heed."""
    from doctor.errors import UsageError

    if has_more:
        raise UsageError(
            "--resume goes on with what was planned", "leave --plan, --check, --lock, --offline out"
        )
    return desk.resume(asked.target, asked.service)


def _prepared(asked: Asked, desk: Desk, plan_file: str) -> Prepared:
    """The plan; refused if a run is unfinished, or if it is no longer the one of that file."""
    from doctor.errors import ProvisionError
    from doctor.provision.asked import inputs_of, read_order
    from doctor.provision.order import prepare

    desk.refuse_unfinished(asked.key)
    prepared = prepare(read_order(asked, say), desk.matrix)
    if plan_file and inputs_of(plan_file) != prepared.plan.inputs:
        raise ProvisionError("the machine or the profile has changed since that plan", "plan again")
    return prepared


def _without_change(prepared: Prepared, form: str, check: bool, verbose: bool) -> int:
    """Show a plan that is empty, refused, or only to be looked at."""
    from doctor.errors import ExitCode
    from doctor.provision.session import rehearse
    from doctor.report.output import terminal_style
    from doctor.report.plan import render_json, render_text
    from doctor.report.run import render_rehearsal

    plan, style = prepared.plan, terminal_style(sys.stdout, verbose)
    click.echo(render_json(plan) if form == "json" else render_text(plan, style), nl=False)
    if plan.blockers:
        return int(ExitCode.NO)
    if check and plan.steps:
        results = rehearse(prepared)
        click.echo(render_rehearsal(results), err=True, nl=False)
        return int(ExitCode.FAILED if any(r.failure for _, r in results) else ExitCode.OK)
    return int(ExitCode.OK)


def _confirm(plan: Plan, yes: bool, verbose: bool) -> None:
    """Show the plan and ask; raises UsageError where nobody can answer."""
    from doctor.errors import UsageError
    from doctor.report.output import terminal_style
    from doctor.report.plan import render_text

    click.echo(render_text(plan, terminal_style(sys.stderr, verbose)), err=True)
    if yes:
        return
    if not sys.stdin.isatty():
        raise UsageError("nobody is here to be asked", "look at the plan, then add --yes")
    if not click.confirm("Carry this out?", err=True):
        raise click.Abort
