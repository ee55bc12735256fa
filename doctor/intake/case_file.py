"""A case file: a field report under `report`, with what is expected of doctor beside it."""

from __future__ import annotations

from typing import Any

from doctor.facts import Facts
from doctor.intake.field_report import read_field_report


def looks_like(data: Any) -> bool:
    """Tell whether a parsed document is a case file."""
    return isinstance(data, dict) and isinstance(data.get("report"), dict)


def read_case_file(data: Any) -> Facts:
    """The facts of the report inside; the rest of the file is not for the judge."""
    return read_field_report(data["report"])
