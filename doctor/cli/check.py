"""`doctor check`."""

from __future__ import annotations

import sys

import click

FORMATS = ("text", "json")


@click.command("check")
@click.option("--facts", multiple=True, metavar="FILE", help="Judge a snapshot, report or case.")
@click.option("--root", default="", metavar="DIR", help="Judge a mounted system; run nothing.")
@click.option("--python", multiple=True, metavar="PATH", help="Judge this Python environment.")
@click.option("--engine", default="", metavar="NAME[==VER]", help="Judge whether it could run.")
@click.option("--model", default="", metavar="NAME", help="The model that it should serve.")
@click.option("--format", "form", type=click.Choice(FORMATS), default="text", show_default=True)
@click.option("-o", "outputs", multiple=True, metavar="FORMAT=FILE", help="Also write this file.")
@click.option(
    "--fail-on",
    type=click.Choice(["error", "warning", "info", "never"]),
    default="error",
    show_default=True,
    help="Exit 1 from this severity on.",
)
@click.option("--strict", is_flag=True, help="Exit 3 if any rule could not decide.")
@click.option("-v", "--verbose", is_flag=True, help="Also notes, sources and missing facts.")
@click.pass_context
def command(
    ctx: click.Context,
    facts: tuple[str, ...],
    root: str,
    python: tuple[str, ...],
    engine: str,
    model: str,
    form: str,
    outputs: tuple[str, ...],
    fail_on: str,
    strict: bool,
    verbose: bool,
) -> None:
    """Judge this host, or one that a file describes: one cause, its evidence, its remedy.

    \b
    Examples:
      doctor check
      doctor check --python ./.venv --engine vllm
      doctor check --facts report.yaml --format json
      doctor check --root /mnt/image -o json=report.json
    """
    from doctor.checkup import check, exit_code
    from doctor.examine import Sources
    from doctor.report.output import emit, parse_outputs, terminal_style, write_all

    files = parse_outputs(outputs, FORMATS)
    report = check(Sources(facts, root, python), engine, model)
    style = terminal_style(sys.stdout, verbose)
    emit(write_all(report, form, files, style))
    asked = bool(facts or python or engine)
    ctx.exit(int(exit_code(report.diagnosis, fail_on, strict, asked)))
