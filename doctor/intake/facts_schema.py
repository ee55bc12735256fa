"""Write the JSON Schema of facts beside the facts: `python -m doctor.intake.facts_schema`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec

import doctor.facts
from doctor.facts import Facts
from doctor.facts.values import TextValue

PATH = Path(doctor.facts.__file__).parent / "facts.schema.json"


def schema_text() -> str:
    """The schema of the wire form, in which what says nothing is left out."""
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "doctor facts, version 1",
        **_without_defaults(msgspec.json.schema(Facts, schema_hook=_text_value)),
    }
    return json.dumps(schema, indent=1) + "\n"


def _text_value(kind: type) -> dict[str, Any]:
    if issubclass(kind, TextValue):
        return {"type": "string", "title": kind.__name__}
    raise NotImplementedError(kind)


def _without_defaults(schema: Any) -> Any:
    """Defaults repeat whole records and say only that a field may be left out."""
    if isinstance(schema, list):
        return [_without_defaults(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    return {k: _without_defaults(v) for k, v in schema.items() if k != "default"}


if __name__ == "__main__":
    PATH.write_text(schema_text(), encoding="utf-8")
