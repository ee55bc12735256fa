"""The wire form of facts: plain JSON values, the missing told apart from the empty."""

from __future__ import annotations

from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from typing import Any

from doctor.facts.reading import Missing, Reading
from doctor.facts.values import TextValue


def to_wire(value: Any) -> Any:
    """Turn facts into JSON values. Fields that say nothing beyond their default are left out."""
    if isinstance(value, TextValue):
        return str(value)
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Reading):
        return _reading(value)
    if isinstance(value, (tuple, list)):
        return [to_wire(item) for item in value]
    if isinstance(value, dict):
        return {str(key): to_wire(item) for key, item in value.items()}
    if is_dataclass(value):
        return _record(value)
    return value


def _reading(reading: Reading[Any]) -> dict[str, Any]:
    if reading.missing is not None or reading.value is None:
        wire: dict[str, Any] = {"missing": (reading.missing or Missing.NOT_STATED).value}
    else:
        wire = {"value": to_wire(reading.value)}
    if reading.partial:
        wire["partial"] = True
    return {**wire, "at": reading.at} if reading.at else wire


def _record(record: Any) -> dict[str, Any]:
    wire = {}
    for item in fields(record):
        value = getattr(record, item.name)
        if item.name == "schema" or value != _default(item):
            wire[item.name] = to_wire(value)
    return wire


def _default(item: Any) -> Any:
    """The value that reading back puts where a field is left out; the item itself if none."""
    if item.default is not MISSING:
        return item.default
    return item.default_factory() if item.default_factory is not MISSING else item
