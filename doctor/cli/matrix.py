"""`doctor matrix`: what is known, and where from."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from doctor.cli.once import OnceGroup

_OVERLAY = click.Path(exists=True, resolve_path=True, path_type=Path)


@click.group("matrix", cls=OnceGroup)
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


@command.command("verify")
@click.option(
    "--max-age",
    type=click.IntRange(1, 36_500),
    default=None,
    metavar="DAYS",
    help="Also fail for a domain older than this.",
)
@click.option("--json", "as_json", is_flag=True, help="For programs.")
@click.pass_context
def verify(ctx: click.Context, max_age: int | None, as_json: bool) -> None:
    """Check every row: form, sources, contradictions of equal rank; and show gaps and age.

    Exit 1 for a fault, or with --max-age for a domain that is too old.
    """
    from datetime import date

    from doctor.errors import ExitCode
    from doctor.matrix import load_matrix
    from doctor.matrix.verification import verification
    from doctor.report.matrix_update import render_verification, render_verification_json

    found = verification(load_matrix(overlays=ctx.obj), date.today(), max_age)
    text = render_verification_json(found) if as_json else render_verification(found)
    click.echo(text, nl=False)
    ctx.exit(int(ExitCode.NO if found.faults or found.is_old else ExitCode.OK))


@command.command("update")
@click.argument("names", nargs=-1, metavar="[NAME...]")
@click.option("--json", "as_json", is_flag=True, help="For programs.")
@click.pass_context
def update(ctx: click.Context, names: tuple[str, ...], as_json: bool) -> None:
    """Learn of new releases from your package index: pins, Pythons, files; never claims.

    Asks where pip asks. No wheel is fetched, only its METADATA. What is found is kept for
    you alone, beside what ships. Exit 4 if the index cannot be reached.

    \b
    Examples:
      doctor matrix update
      doctor matrix update vllm sglang
    """
    from doctor.errors import ExitCode
    from doctor.report.matrix_update import render_update, render_update_json
    from doctor.report.output import terminal_style
    from doctor.report.progress import Progress
    from doctor.updating import update as run_update

    with Progress(sys.stderr, terminal_style(sys.stderr).width, "projects") as progress:
        index, outcomes = run_update(names, progress)
        found = tuple(outcomes)
    render = render_update_json if as_json else render_update
    click.echo(render(found, index.requests), nl=False)
    nothing = all(outcome.failed for outcome in found)
    ctx.exit(int(ExitCode.FAILED if nothing else ExitCode.OK))


@command.command("diff")
@click.argument("old", metavar="A")
@click.argument("new", metavar="B")
@click.option("--facts", multiple=True, metavar="FILE", help="What changes for this host.")
@click.option("--host", default="", metavar="LINE", help='For a host in words: "L40Sx2,...".')
@click.option("--json", "as_json", is_flag=True, help="For programs.")
@click.pass_obj
def diff(
    overlay: tuple[Path, ...], old: str, new: str, facts: tuple[str, ...], host: str, as_json: bool
) -> None:
    """Say what changes between two drivers, or between two versions of an engine.

    With --host or --facts also what that means there: what is refused, what becomes possible.

    \b
    Examples:
      doctor matrix diff 550.163.01 580.178.04 --host "L40Sx2,python=3.12,ubuntu=22.04"
      doctor matrix diff vllm==0.19.1 vllm==0.33.0
    """
    from doctor.diffing import compare
    from doctor.examine import Sources
    from doctor.matrix import load_matrix
    from doctor.report.matrix_diff import render_json, render_text
    from doctor.report.output import terminal_style

    sources = Sources(facts, host=host) if facts or host else None
    found = compare(load_matrix(overlays=overlay), old, new, sources)
    text = render_json(found) if as_json else render_text(found, terminal_style(sys.stdout))
    click.echo(text, nl=False)
