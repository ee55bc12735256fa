"""The wire form of facts: plain JSON values, the missing told apart from the empty."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
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
        wire = {"missing": (reading.missing or Missing.NOT_STATED).value}
    else:
        wire = {"value": to_wire(reading.value)}
    return {**wire, "at": reading.at} if reading.at else wire


def _record(record: Any) -> dict[str, Any]:
    wire = {}
    for item in fields(record):
        value = getattr(record, item.name)
        if item.name == "schema" or not _says_nothing(value):
            wire[item.name] = to_wire(value)
    return {name: value for name, value in wire.items() if value != {}}


def _says_nothing(value: Any) -> bool:
    if isinstance(value, Reading):
        return value.missing is Missing.NOT_STATED and not value.at
    return value is None or value in ("", (), {})
