"""`doctor completion`: what a shell needs to complete commands, options and causes."""

from __future__ import annotations

import click

_SHELLS = ("bash", "zsh", "fish")


@click.command("completion")
@click.argument("shell", type=click.Choice(_SHELLS))
def command(shell: str) -> None:
    """Print the completion script of a shell.

    \b
    Examples:
      doctor completion bash > ~/.local/share/bash-completion/completions/doctor
      doctor completion zsh > ~/.zfunc/_doctor
      doctor completion fish > ~/.config/fish/completions/doctor.fish
    """
    from click.shell_completion import ShellComplete, get_completion_class

    from doctor.cli.group import root
    from doctor.report.output import emit

    kind = get_completion_class(shell)
    if kind is not None:
        # The base class writes the script without asking which bash there is.
        emit(ShellComplete.source(kind(root, {}, "doctor", "_DOCTOR_COMPLETE")))
