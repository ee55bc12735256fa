"""Options that belong together reach a command as one record."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from functools import wraps
from typing import Any, TypeVar

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
