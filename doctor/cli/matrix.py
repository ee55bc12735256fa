"""`doctor matrix`: what is known, and where from."""

from __future__ import annotations

import sys
from pathlib import Path

import click

_OVERLAY = click.Path(exists=True, resolve_path=True, path_type=Path)


@click.group("matrix")
@click.option(
    "--overlay", multiple=True, type=_OVERLAY, help="Rows of your own: a YAML file or a folder."
)
@click.pass_context
def command(ctx: click.Context, overlay: tuple[Path, ...]) -> None:
    """Look into the compatibility matrix: every row names its source."""
    ctx.obj = overlay


@command.command("show")
@click.argument("domain", default="")
@click.option("--json", "as_json", is_flag=True, help="For programs.")
@click.pass_obj
def show(overlay: tuple[Path, ...], domain: str, as_json: bool) -> None:
    """List the domains of the matrix, or all rows of one.

    \b
    Examples:
      doctor matrix show
      doctor matrix show drivers
      doctor matrix show vllm --json
    """
    from doctor.matrix import load_matrix
    from doctor.matrix.lookup import contents
    from doctor.report.matrix import render_json, render_text
    from doctor.report.output import emit, terminal_style

    answer = contents(load_matrix(overlays=overlay), domain)
    text = render_json(answer) if as_json else render_text(answer, terminal_style(sys.stdout))
    emit(text)


@command.command("query")
@click.argument("words", nargs=-1, required=True, metavar="TEXT...")
@click.option("--json", "as_json", is_flag=True, help="For programs.")
@click.pass_context
def query(ctx: click.Context, words: tuple[str, ...], as_json: bool) -> None:
    """Say what is known of a card, a driver, a CUDA version or a release of an engine.

    Exit 1 if the matrix does not know the version that was asked for.

    \b
    Examples:
      doctor matrix query vllm 0.11.0
      doctor matrix query vllm 0.11.0 quantization
      doctor matrix query gpu 4090
      doctor matrix query driver 550.54
      doctor matrix query cuda 12.8
    """
    from doctor.errors import ExitCode
    from doctor.matrix import load_matrix
    from doctor.matrix.lookup import ask
    from doctor.report.matrix import render_json, render_text
    from doctor.report.output import emit, terminal_style

    answer = ask(load_matrix(overlays=ctx.obj), words)
    text = render_json(answer) if as_json else render_text(answer, terminal_style(sys.stdout))
    emit(text)
    ctx.exit(int(ExitCode.OK if answer.found else ExitCode.NO))
