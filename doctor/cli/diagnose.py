"""`doctor diagnose`."""

from __future__ import annotations

import sys

import click

from doctor.cli.check_options import FORMATS


@click.command("diagnose")
@click.argument("log", metavar="LOG")
@click.option("--facts", multiple=True, metavar="FILE", help="Facts that tell causes apart.")
@click.option("--engine", default="", metavar="NAME[==VER]", help="The engine that wrote it.")
@click.option("--format", "form", type=click.Choice(FORMATS), default="text", show_default=True)
@click.option("--no-redact", is_flag=True, help="Keep names of people and machines.")
@click.option("-v", "--verbose", is_flag=True, help="Also notes, sources and missing facts.")
@click.pass_context
def command(
    ctx: click.Context,
    log: str,
    facts: tuple[str, ...],
    engine: str,
    form: str,
    no_redact: bool,
    verbose: bool,
) -> None:
    """Name the cause that a log speaks of: by its first real error, not by its last.

    LOG is a file, or - for standard input. The same words may have several causes; facts
    (a snapshot, a report, pasted outputs) tell them apart, else all are listed with the
    command that would decide.

    \b
    Examples:
      doctor diagnose server.log
      doctor diagnose server.log --engine vllm --facts snapshot.json
      journalctl -u vllm | doctor diagnose -
    """
    from doctor.checkup import exit_code, read_log
    from doctor.examine import Sources
    from doctor.report.output import emit, terminal_style, write_all
    from doctor.report.redact import redactor

    found = read_log(log, Sources(facts), engine)
    report = found if no_redact else redactor().report(found)
    emit(write_all(report, form, (), terminal_style(sys.stdout, verbose)))
    ctx.exit(int(exit_code(report, "error", strict=False, asked=True)))
