"""`doctor rollback`."""

from __future__ import annotations

import click

from doctor.cli.provisioning import ServiceOptions, desk_for, on_a_service


@click.command("rollback")
@click.argument("profile", metavar="PROFILE|FILE")
@click.argument("run", default="", metavar="[RUN]")
@on_a_service
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text")
@click.pass_context
def command(
    ctx: click.Context,
    profile: str,
    run: str,
    service: ServiceOptions,
    form: str,
) -> None:
    """Bring back what was there before the last run, or before the one that is named.

    The release before, its files and its unit; then the engine is proven again. A run that
    was interrupted is undone first.

    \b
    Examples:
      doctor rollback llamacpp-cpu --user
      doctor rollback llamacpp-cpu 20261129-191500-1a3f9 --on ssh://root@host

    Exit codes: 0 done, 2 there is nothing to undo, 4 a step failed, 5 a reboot is needed.
    """
    from doctor.report.run import render_json, render_text

    asked = service.asked(profile)
    outcome = desk_for(asked).rollback(asked.target, asked.service, run)
    click.echo(render_json(outcome) if form == "json" else render_text(outcome), nl=False)
    ctx.exit(int(outcome.exit_code))
