"""A snapshot: the JSON form of facts that doctor itself writes, read back.

Keys that this version does not know are ignored, since a newer doctor may have
written them; a value of the wrong shape is an error that names its place.
"""

from __future__ import annotations

import json
from typing import Any

import msgspec

from doctor.errors import UsageError
from doctor.facts import Facts, to_wire
from doctor.facts.model import SCHEMA
from doctor.facts.values import TextValue


def looks_like(text: str) -> bool:
    """Tell whether this is a JSON snapshot of facts."""
    head = text.lstrip()[:4096]
    return head.startswith("{") and '"doctor/facts/' in head


def write_snapshot(facts: Facts) -> str:
    """Facts as JSON text, one per host, that `read_snapshot` reads back."""
    return json.dumps(to_wire(facts), indent=1, ensure_ascii=False) + "\n"


def read_snapshot(text: str, name: str = "") -> Facts:
    """Read a snapshot; raises UsageError with the place of the fault."""
    label = name or "snapshot"
    try:
        return from_wire(msgspec.json.decode(text))
    except (msgspec.MsgspecError, RecursionError, ValueError) as fault:
        raise UsageError(f"{label}: {fault}", "record it again with `doctor record`") from None


def from_wire(wire: Any) -> Facts:
    """Turn the wire form into facts; raises msgspec.ValidationError or ValueError."""
    schema = wire.get("schema", SCHEMA) if isinstance(wire, dict) else ""
    if schema != SCHEMA:
        raise ValueError(f"schema is {str(schema)[:60]!r}, this doctor reads {SCHEMA!r}")
    facts: Facts = msgspec.convert(wire, Facts, dec_hook=_decode)
    return facts


def _decode(kind: type, value: Any) -> Any:
    if issubclass(kind, TextValue):
        if not isinstance(value, str):
            raise ValueError(f"expected a text, got {type(value).__name__}")
        return kind.parse(value)
    raise NotImplementedError(kind)
