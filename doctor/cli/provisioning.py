"""Options that the commands which act on a service share."""

from __future__ import annotations

import sys
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import click

from doctor.cli.records import Command, as_one, only_with

if TYPE_CHECKING:
    from doctor.provision.asked import Asked
    from doctor.provision.session import Desk

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


@dataclass(frozen=True)
class ServiceOptions:
    """The options as they were given."""

    user: bool = False
    on: str = ""
    ssh_config: str = ""
    driver: bool = False
    lock: str = ""
    offline: str = ""
    busy: bool = False

    def asked(self, profile: str) -> Asked:
        """What they ask of a profile."""
        from doctor.provision.asked import Asked

        return Asked(profile, **asdict(self))

    def words(self) -> tuple[str, ...]:
        """The options as words for a doctor that works on one machine of many."""
        found: list[str] = []
        for name, value in asdict(self).items():
            if value and name not in ("on", "ssh_config"):
                found += [f"--{name}"] if value is True else [f"--{name}", value]
        return tuple(found)


def on_a_service(command: Command) -> Command:
    """Add --user, --on, --ssh-config and --driver, as one `service`."""
    return as_one(only_with("on", "ssh_config")(command), "service", ServiceOptions, _OPTIONS)


def on_a_locked_service(command: Command) -> Command:
    """The same with --lock, --offline and --busy."""
    checked = only_with("on", "ssh_config")(command)
    return as_one(checked, "service", ServiceOptions, (*_OPTIONS, *_LOCK))


def desk_for(asked: Asked) -> Desk:
    """Where its runs are kept and carried out, with progress for a person."""
    from doctor.matrix import load_matrix
    from doctor.provision.session import Desk
    from doctor.report.output import terminal_style
    from doctor.report.run import RunProgress

    progress = RunProgress(sys.stderr, terminal_style(sys.stderr).width)
    return Desk(asked.runs(), load_matrix(), progress.watcher)


def say(text: str) -> None:
    """Tell a person of work that takes a while."""
    click.echo(f"{text} ...", err=True)
