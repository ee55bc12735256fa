"""Options of the commands that act on many machines of an inventory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from doctor.cli.finite import Finite
from doctor.cli.records import Command, as_one, only_with

if TYPE_CHECKING:
    from pathlib import Path

    from doctor.fleets import Reach

_OPTIONS = (
    click.option("--inventory", default="", metavar="INV", help="Machines of an inventory."),
    click.option("--limit", default="", metavar="PATTERNS", help="Only these hosts or groups."),
    click.option("--forks", type=click.IntRange(1, 500), default=10, help="So many at once."),
    click.option(
        "--host-limit",
        type=Finite(1, 86400),
        default=None,
        metavar="S",
        help="How long one machine may take.",
    ),
    click.option("--keep", default="", metavar="DIR", help="Where what was found is kept."),
)
CHECK_S = 180.0


@dataclass(frozen=True)
class FleetOptions:
    """The options as they were given."""

    inventory: str = ""
    limit: str = ""
    forks: int = 10
    host_limit: float | None = None
    keep: str = ""

    def folder(self) -> Path:
        """Where to keep what is found: the folder named, else a new one of the user's state."""
        from pathlib import Path

        return Path(self.keep) if self.keep else new_folder()

    def reach(self) -> Reach:
        """How machines are asked for facts."""
        from doctor.fleets import Reach

        folder, seconds = self.folder(), self.host_limit or CHECK_S
        return Reach(self.inventory, folder, self.limit, self.forks, seconds, _say)


def _say(text: str) -> None:
    click.echo(text, err=True)


def new_folder() -> Path:
    """A folder for this run, below the user's state."""
    from datetime import datetime, timezone

    from doctor.provision.runs import state_folder

    stamp = datetime.now(timezone.utc).strftime("%Y%m%d-%H%M%S")
    return state_folder(user=True) / "fleets" / stamp


@dataclass(frozen=True)
class Batches:
    """How apply goes through a fleet, and the task files around each machine."""

    serial: str = "1,25%,100%"
    drain: str = ""
    undrain: str = ""


_BATCHES = (
    click.option(
        "--serial", default=Batches.serial, show_default=True, help="Sizes of the batches."
    ),
    click.option("--drain", default="", metavar="FILE", help="Tasks before a machine is changed."),
    click.option("--undrain", default="", metavar="FILE", help="Tasks after it was changed."),
)


def on_a_fleet(command: Command) -> Command:
    """Add --inventory, --limit, --forks, --host-limit and --keep, as one `fleet`."""
    checked = only_with("inventory", "limit", "forks", "host_limit", "keep")(command)
    return as_one(checked, "fleet", FleetOptions, _OPTIONS)


def in_batches(command: Command) -> Command:
    """Add --serial, --drain and --undrain, as one `batches`."""
    checked = only_with("inventory", "serial", "drain", "undrain")(command)
    return as_one(checked, "batches", Batches, _BATCHES)
