"""Write the JSON Schema of doctor.toml beside the package: `python -m doctor.config_schema`."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec

import doctor
from doctor.gate import Config

PATH = Path(doctor.__file__).parent / "config.schema.json"
_WORDS = {
    "reason": "Why it is ignored, for the next reader.",
    "cause": "A cause, as `doctor explain` lists them.",
    "code": "The code of one finding, such as ENG601.",
    "subject": "A target, scope or device id; * stands for anything.",
    "host": "A host of a fleet; * stands for anything.",
    "until": "The last day on which it counts.",
}


def schema_text() -> str:
    """The schema; unknown keys are refused, as doctor refuses them."""
    schema = msgspec.json.schema(Config)
    ignore = schema["$defs"]["Ignore"]
    for name, words in _WORDS.items():
        ignore["properties"][name]["description"] = words
    ignore["anyOf"] = [{"required": ["cause"]}, {"required": ["code"]}]
    # Editors read dates of TOML as texts of this format.
    ignore["properties"]["until"] = {
        "type": "string",
        "format": "date",
        "description": _WORDS["until"],
    }
    for record in schema["$defs"].values():
        record["additionalProperties"] = False
    whole = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "doctor.toml",
        **schema,
    }
    return json.dumps(whole, indent=1) + "\n"


if __name__ == "__main__":
    PATH.write_text(schema_text(), encoding="utf-8")
