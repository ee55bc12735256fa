"""The entry point: lazy commands, and the one place where errors become exit codes."""

from __future__ import annotations

import os
import sys
import tempfile
import traceback
from importlib import import_module
from typing import Any

import click

import doctor
from doctor.errors import DoctorError, ExitCode

# Name → module with a `command`. Listed in the order in which people need them.
COMMANDS: dict[str, str] = {
    "check": "doctor.cli.check",
    "record": "doctor.cli.record",
    "explain": "doctor.cli.explain",
    "diagnose": "doctor.cli.diagnose",
    "scan": "doctor.cli.scan",
    "fit": "doctor.cli.fit",
    "matrix": "doctor.cli.matrix",
    "smoke": "doctor.cli.smoke",
}

EPILOG = """\b
Exit codes: 0 done  1 the answer is no  2 usage or unreadable input
3 cannot tell  4 an action failed  5 a reboot or a person is needed
70 a bug  130 interrupted
"""


class LazyGroup(click.Group):
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
            hint = f" Did you mean {near[0]!r}?" if near else " See `doctor --help`."
            raise click.UsageError(f"No such command {args[0][:60]!r}.{hint}", ctx)
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


def main(argv: list[str] | None = None) -> None:
    """Run the command line and exit."""
    sys.exit(int(run(sys.argv[1:] if argv is None else argv)))


def run(argv: list[str]) -> int:
    """Run the command line; return the exit code. Every error ends here, in one line."""
    try:
        answer: Any = root.main(args=argv, prog_name="doctor", standalone_mode=False)
        code = int(answer) if isinstance(answer, int) else 0
        sys.stdout.flush()
    except click.exceptions.Exit as leave:
        code = leave.exit_code
    except click.ClickException as fault:
        fault.show(file=sys.stderr)
        code = ExitCode.USAGE
    except DoctorError as fault:
        _say(str(fault), fault.hint)
        code = fault.exit_code
    except (KeyboardInterrupt, click.exceptions.Abort):
        click.echo("interrupted", err=True)
        code = ExitCode.INTERRUPTED
    except BrokenPipeError:
        # The reader went away (`| head`); nothing is left to say to it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        code = ExitCode.OK
    except Exception:
        code = _bug()
    return int(code)


def _say(message: str, hint: str = "") -> None:
    from doctor.report.clean import clean

    text = f"doctor: {clean(message)}"
    click.echo(f"{text}\n  {clean(hint)}" if hint else text, err=True)


def _bug() -> ExitCode:
    """Write the trace to a private file, ready to paste, and say where it is."""
    handle, path = tempfile.mkstemp(prefix="doctor-bug-", suffix=".txt")
    with os.fdopen(handle, "w") as file:
        file.write(f"doctor {doctor.__version__}, Python {sys.version}\n{traceback.format_exc()}")
    last = traceback.format_exc().strip().splitlines()[-1]
    _say(f"this is a bug: {last}", f"please report it with the trace in {path}")
    return ExitCode.BUG
