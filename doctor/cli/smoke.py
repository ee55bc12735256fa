"""`doctor smoke`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from doctor.cli.finite import Finite

if TYPE_CHECKING:
    from doctor.smoke.target import Record


@click.command("smoke")
@click.argument("url", required=False, default="", metavar="[URL]")
@click.option("--engine", default="", metavar="NAME[==VER]", help="Start this engine and prove it.")
@click.option("--profile", default="", metavar="P", help="Start what a profile describes.")
@click.option("--python", default="", metavar="PATH", help="The environment that holds it.")
@click.option("--model", default="", metavar="M", help="Not the known-answer model but this one.")
@click.option("--arg", "args", multiple=True, metavar="NAME=VALUE", help="An engine argument.")
@click.option("--api-key", default="", metavar="REF", help="env:NAME or file:PATH, never the key.")
@click.option(
    "--timeout",
    "timeout_s",
    type=Finite(0.1, 86400),
    metavar="S",
    help="To become ready.",
)
@click.option("--record", default="", metavar="FILE", help="Write figures of the model here.")
@click.option("--expect", default="", metavar="FILE", help="Compare with recorded figures.")
@click.option("--keep-log", default="", metavar="DIR", help="Keep the server's log here.")
@click.option("--print-command", is_flag=True, help="Show what would be started, and stop.")
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text")
@click.option("-v", "--verbose", is_flag=True, help="Do not shorten what was seen.")
@click.pass_context
def command(
    ctx: click.Context,
    /,
    record: str,
    print_command: bool,
    form: str,
    verbose: bool,
    **asked: Any,
) -> None:
    """Prove that an engine computes right: a known answer from the real server.

    A small model that ships with doctor answers one sentence to any prompt, with
    log-probabilities that are known to four decimals. Health checks cannot show that.
    Without URL and engine, llama.cpp is started inside a process of its own, on the CPU.

    \b
    Examples:
      doctor smoke                              llama.cpp on this machine, in seconds
      doctor smoke --engine vllm --python .venv
      doctor smoke http://127.0.0.1:8000 --api-key env:KEY
      doctor smoke --engine sglang --arg tensor_parallel_size=2

    Exit codes: 0 proven, 1 not proven, 2 usage, 4 could not be started.
    """
    from doctor.matrix import load_matrix
    from doctor.report.clean import clean_line
    from doctor.report.output import emit, terminal_style
    from doctor.report.smoke import render_command, render_json, render_text
    from doctor.smoke.asked import Options, read_ask
    from doctor.smoke.outcome import EXIT_CODES
    from doctor.smoke.prepare import prepare
    from doctor.smoke.run import smoke

    ask, matrix = read_ask(Options(**asked)), load_matrix()
    if print_command:
        plan = prepare(ask, matrix).plan
        emit(render_command(plan.argv, plan.env, plan.settings))
        return
    outcome = smoke(ask, matrix, lambda text: click.echo(clean_line(text), err=True))
    _keep(outcome.record, record, bool(record or asked["expect"]))
    style = terminal_style(sys.stdout, verbose)
    emit(render_json(outcome) if form == "json" else render_text(outcome, style))
    ctx.exit(int(EXIT_CODES[outcome.verdict]))


def _keep(taken: Record | None, path: str, is_asked_for: bool) -> None:
    """Write the model's figures where they are wanted, or say that there are none."""
    from doctor.smoke.records import write_record

    if taken is None and is_asked_for:
        # The known-answer model has figures of its own, and a proof that failed has none.
        click.echo("no figures of a model were taken: none are recorded or compared", err=True)
    elif path and taken is not None:
        write_record(path, taken)
