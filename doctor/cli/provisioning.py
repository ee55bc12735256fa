"""Options that the commands which act on a service share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., Any])

_OPTIONS = (
    click.option("--user", is_flag=True, help="A service of this user, without root."),
    click.option(
        "--on", default="", metavar="TARGET", help="ssh://[user@]host[:port] or docker://name."
    ),
    click.option("--ssh-config", default="", metavar="FILE", help="For ssh's -F."),
    click.option("--driver", is_flag=True, help="The driver that it wants, not its engine."),
)
_LOCK = (
    click.option("--lock", default="", metavar="FILE", help="Not ./stack.lock but this one."),
    click.option(
        "--offline", default="", metavar="DIR", help="Take files from here, ask no index."
    ),
    click.option("--busy", is_flag=True, help="Change a driver while programs use the GPUs."),
)


def on_a_service(command: Command) -> Command:
    """Add --user, --on, --ssh-config and --driver."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def with_lock(command: Command) -> Command:
    """Add --lock, --offline and --busy."""
    for option in reversed(_LOCK):
        command = option(command)
    return command


def say(text: str) -> None:
    """Tell a person of work that takes a while."""
    click.echo(f"{text} ...", err=True)
