"""`doctor explain`."""

from __future__ import annotations

import click


@click.command("explain")
@click.argument("name", metavar="[CODE|CAUSE]", default="")
def command(name: str) -> None:
    """Explain a finding: what was checked, why it matters, how to mend it.

    \b
    Examples:
      doctor explain                    list all causes
      doctor explain driver-too-old
      doctor explain DRV101
    """
    from doctor.matrix import load_matrix
    from doctor.report.output import emit
    from doctor.report.page import render_list, render_pages

    matrix = load_matrix()
    emit(render_pages(name, matrix) if name else render_list(matrix))
