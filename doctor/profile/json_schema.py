"""The schema of profiles for editors: profile.schema.json, made from the structs.

`python -m doctor.profile.json_schema` writes it anew; a test holds the two together.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec

from doctor.profile.schema import Profile

PLACE = Path(__file__).with_name("profile.schema.json")


def schema_text() -> str:
    """The JSON Schema of a profile."""
    schema = _portable(msgspec.json.schema(Profile))
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    return json.dumps(schema, indent=1, ensure_ascii=True, sort_keys=True) + "\n"


def _portable(value: Any) -> Any:
    r"""The end of a text is `\Z` in Python and `$` in JSON Schema."""
    if isinstance(value, dict):
        return {key: _portable(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_portable(item) for item in value]
    return value.replace(r"\Z", "$") if isinstance(value, str) else value


if __name__ == "__main__":
    PLACE.write_text(schema_text(), encoding="utf-8")
