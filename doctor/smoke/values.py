"""Values of arguments, from the text that a person writes."""

from __future__ import annotations

import json
from math import isfinite
from typing import Any


def value_of(text: str) -> Any:
    """Numbers, lists, true and false; anything else goes to the engine as it stands."""
    try:
        value = json.loads(text.lower() if text.lower() in ("true", "false") else text)
    except (ValueError, RecursionError):
        return text
    is_plain = isinstance(value, (int, list)) or (isinstance(value, float) and isfinite(value))
    return value if is_plain else text


def finite(value: object) -> float | None:
    """A finite number of JSON as float; None for anything else, and for what no float holds."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if isfinite(number) else None
