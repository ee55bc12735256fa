"""Options that belong together: they reach a command as one record, or count with another only."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from functools import wraps
from typing import Any, TypeVar

import click

from doctor.errors import UsageError

Command = TypeVar("Command", bound=Callable[..., Any])


def as_one(command: Command, name: str, kind: type, options: tuple[Any, ...]) -> Command:
    """Add options that the command gets as one record, whose fields they are."""

    @wraps(command)
    def together(*args: Any, **given: Any) -> Any:
        mine = {f.name: given.pop(f.name) for f in fields(kind) if f.name in given}
        return command(*args, **{name: kind(**mine)}, **given)

    decorated: Any = together
    for option in reversed(options):
        decorated = option(decorated)
    return decorated  # type: ignore[no-any-return]


def only_with(leader: str, *names: str) -> Callable[[Command], Command]:
    """Refuse options that mean nothing unless `leader` is given too, by names of parameters.

    They would be passed over in silence: `apply --limit gpu1` without --inventory would change
    this machine, and --drain would drain nothing.
    """

    def decorate(command: Command) -> Command:
        @wraps(command)
        def checked(*args: Any, **given: Any) -> Any:
            _refuse_idle(click.get_current_context(), leader, names)
            return command(*args, **given)

        return checked  # type: ignore[return-value]

    return decorate


def _refuse_idle(ctx: click.Context, leader: str, names: tuple[str, ...]) -> None:
    typed = {p.name: p for p in ctx.command.params if _is_typed(ctx, p)}
    idle = [max(typed[name].opts, key=len) for name in names if name in typed]
    if idle and leader not in typed:
        word = f"--{leader.replace('_', '-')}"
        raise UsageError(f"{idle[0]} says nothing without {word}", f"add {word}, or leave it out")


def _is_typed(ctx: click.Context, parameter: click.Parameter) -> bool:
    source = ctx.get_parameter_source(parameter.name or "")
    return source is click.core.ParameterSource.COMMANDLINE
