"""The command `doctor` itself: its commands are imported only when they are named."""

from __future__ import annotations

from importlib import import_module

import click

import doctor
from doctor.cli.commands import COMMANDS
from doctor.cli.once import OnceGroup

EPILOG = """\b
Exit codes: 0 done  1 the answer is no  2 usage or unreadable input
3 cannot tell  4 an action failed  5 a reboot or a person is needed
70 a bug  130 interrupted
"""


class LazyGroup(OnceGroup):
    """Imports a command's module only when that command is named."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names in the order of the table."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of that name, or None."""
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = import_module(COMMANDS[cmd_name]).command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Add the nearest names to the error for an unknown command."""
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            import difflib

            near = difflib.get_close_matches(args[0], COMMANDS, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise click.UsageError(f"no command {args[0][:60]!r}{hint}", ctx)
        return super().resolve_command(ctx, args)


@click.group(
    cls=LazyGroup,
    epilog=EPILOG,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(doctor.__version__, prog_name="doctor")
def root() -> None:
    """Tell whether this host can run an LLM inference engine, why not, and what would.

    \b
    Examples:
      doctor check                          judge this host
      doctor check --engine vllm==0.20.0    could it run that?
      doctor explain driver-too-old         what a finding means
    """
