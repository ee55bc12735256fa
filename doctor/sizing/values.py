"""Whole numbers from files that may lie: checked ranges, and errors that name the place."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from doctor.errors import UsageError

# The highest that any published model comes near to, with room; more is damage or a joke.
MOST_LAYERS = 10_000
MOST_WIDTH = 1 << 22
MOST_HEADS = 1 << 16
MOST_TOKENS = 1 << 31
MOST_VOCAB = 1 << 27


def whole(
    config: Mapping[str, Any], at: str, *names: str, most: int = MOST_WIDTH, least: int = 1
) -> int | None:
    """The first of these keys that holds a number; None if none is there or it is null.

    Raises UsageError for a value that is no whole number from `least` to `most`.
    """
    for name in names:
        value = config.get(name)
        if value is not None:
            return checked(value, f"{at}: {name}", most, least)
    return None


def checked(value: object, what: str, most: int, least: int = 1) -> int:
    """The value if it is a whole number in range; raises UsageError that names it."""
    if isinstance(value, float) and value.is_integer() and abs(value) <= most:
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise UsageError(f"{what} is {_shown(value)}", "a whole number belongs there")
    if not least <= value <= most:
        raise UsageError(f"{what} is {_shown(value)}", f"expected {least} to {most}")
    return value


def _shown(value: object) -> str:
    # A whole number of millions of digits cannot even be printed.
    if isinstance(value, int) and value.bit_length() > 256:
        return f"a number of {value.bit_length()} bits"
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
