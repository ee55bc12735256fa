"""Prometheus text → figures by metric name. Pure."""

from __future__ import annotations

import math
import re

_SAMPLE = re.compile(r"([a-zA-Z_:][\w:]*)(?:\{.*\})?\s+(\S+)(?:\s+-?\d+)?\s*")
_LONGEST_LINE = 16384


def parse_metrics(text: str) -> dict[str, float]:
    """Sum of a metric over all its labels, by its name; what is no number is left out."""
    found: dict[str, float] = {}
    for line in text.splitlines():
        match = None if line.startswith("#") else _SAMPLE.fullmatch(line[:_LONGEST_LINE])
        value = _value(match[2]) if match else None
        if match and value is not None:
            found[match[1]] = found.get(match[1], 0.0) + value
    return found


def _value(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def pick(found: dict[str, float], names: tuple[str, ...]) -> float | None:
    """The figure of the first of these metrics that is there."""
    return next((found[name] for name in names if name in found), None)
