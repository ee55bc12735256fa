"""Write the JSON Schema of the reports: `python -m doctor.report.report_schema`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec

from doctor.findings import Finding, Suspect, Verdict
from doctor.report.json_v1 import FLEET_SCHEMA, SCHEMA

PATH = Path(__file__).parent / "report.schema.json"

_TEXT = {"type": "string"}
_FLAG = {"type": "boolean"}


def schema_text() -> str:
    """The schema of a report of one host or of a fleet."""
    _, parts = msgspec.json.schema_components(
        (Finding, Suspect, Verdict), ref_template="#/$defs/{name}"
    )
    parts["Finding"]["properties"] |= {"fingerprint": _TEXT, "known": _FLAG}
    parts["Finding"]["required"].append("fingerprint")
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "doctor report, version 1",
        "oneOf": [{"$ref": "#/$defs/Report"}, {"$ref": "#/$defs/Fleet"}],
        "$defs": {**parts, **_own()},
    }
    return json.dumps(schema, indent=1) + "\n"


def _own() -> dict[str, Any]:
    matrix = _object({"version": _TEXT, "as_of": _TEXT}, ())
    judged = {
        "verdict": _ref("Verdict"),
        "targets": _list(_ref("Target")),
        "ignored": _list(_ref("Ignored")),
        "notes": _list(_TEXT),
    }
    report = {"schema": {"const": SCHEMA}, "source": _TEXT, **judged, "matrix": matrix}
    facts = {"type": "object", "description": "doctor/facts/v1; see facts.schema.json"}
    host = {"name": _TEXT, "path": _TEXT, **judged}
    lost = {"name": _TEXT, "path": _TEXT, "reason": _TEXT}
    fleet = {
        "schema": {"const": FLEET_SCHEMA},
        "source": _TEXT,
        "hosts": _list(_object(host, ("ignored", "notes"))),
        "unreadable": _list(_object(lost, ())),
        "matrix": matrix | {"required": []},
    }
    return {
        "Report": _object({**report, "facts": facts}, ("ignored", "notes")),
        "Fleet": _object(fleet, ()),
        "Target": _object(_target(), ("crashed",)),
        "Ignored": _object(
            {"target": _TEXT, "finding": _ref("Finding"), "reason": _TEXT, "until": _TEXT}, ()
        ),
    }


def _target() -> dict[str, Any]:
    return {
        "subject": _TEXT,
        "verdict": _ref("Verdict"),
        "primary": {"anyOf": [_ref("Finding"), {"type": "null"}]},
        "findings": _list(_ref("Finding")),
        "candidates": _list(_ref("Suspect")),
        "missing": _list(_TEXT),
        "crashed": _list(_object({"code": _TEXT, "reason": _TEXT}, ())),
    }


def _object(properties: dict[str, Any], optional: tuple[str, ...]) -> dict[str, Any]:
    required = [name for name in properties if name not in optional]
    return {"type": "object", "properties": properties, "required": required}


def _list(items: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": items}


def _ref(name: str) -> dict[str, Any]:
    return {"$ref": f"#/$defs/{name}"}


if __name__ == "__main__":
    PATH.write_text(schema_text(), encoding="utf-8")
