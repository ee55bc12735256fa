"""`doctor explain`."""

from __future__ import annotations

import sys

import click
from click.shell_completion import CompletionItem


def _names(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Causes and codes, for the shell's completion."""
    from doctor.matrix import load_matrix
    from doctor.rules.registry import RULES

    names = [*load_matrix().causes, *(rule.code for rule in RULES)]
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]


@click.command("explain")
@click.argument("name", metavar="[CODE|CAUSE]", default="", shell_complete=_names)
def command(name: str) -> None:
    """Explain a finding: what was checked, why it matters, how to mend it.

    \b
    Examples:
      doctor explain                    list all causes
      doctor explain driver-too-old
      doctor explain DRV101
    """
    from doctor.matrix import load_matrix
    from doctor.report.output import emit, terminal_style
    from doctor.report.page import render_list, render_pages

    matrix = load_matrix()
    emit(render_pages(name, matrix, terminal_style(sys.stdout)) if name else render_list(matrix))
