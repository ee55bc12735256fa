"""`doctor scan`."""

from __future__ import annotations

import sys

import click


@click.command("scan")
@click.argument("path", metavar="FILE|WHEEL|FOLDER", type=click.Path())
@click.option(
    "--cc",
    multiple=True,
    metavar="8.9",
    help="For a card of this compute capability; by default for those of this machine.",
)
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text")
@click.option("-v", "--verbose", is_flag=True, help="Name everything that is needed.")
@click.pass_context
def command(ctx: click.Context, path: str, cc: tuple[str, ...], form: str, verbose: bool) -> None:
    """Say what a library, a wheel or a folder can run on, from the machine code in it.

    Nothing is unpacked, imported or run. Exit 1 if a card that was named can run none
    of the CUDA code.

    \b
    Examples:
      doctor scan torch-2.14.1-cp311-cp311-manylinux_2_28_x86_64.whl --cc 8.9 --cc 12.0
      doctor scan /usr/lib/x86_64-linux-gnu/libnccl.so.2
      doctor scan .venv --format json
    """
    from doctor.matrix import load_matrix
    from doctor.probes.local import LocalHost
    from doctor.report.output import emit, terminal_style
    from doctor.report.progress import ByteProgress
    from doctor.report.scan import render_json, render_text
    from doctor.scanning import exit_code, scan_for

    style = terminal_style(sys.stdout, verbose)
    progress = ByteProgress(sys.stderr, style.width)
    try:
        report = scan_for(path, cc, LocalHost(), load_matrix(), progress)
    finally:
        progress.close()
    text = render_json(report) if form == "json" else render_text(report, style)
    emit(text)
    ctx.exit(int(exit_code(report)))
