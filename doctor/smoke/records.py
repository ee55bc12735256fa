"""Figures of a user's own model, kept in a small JSON file between runs."""

from __future__ import annotations

import json
from dataclasses import asdict

from doctor.errors import UsageError
from doctor.named_files import read_named, write_named
from doctor.smoke.target import Record
from doctor.smoke.values import finite

SCHEMA = "doctor/smoke-record/v1"
_LIMIT = 64 << 10


def write_record(path: str, record: Record) -> None:
    """Write the figures whole or not at all. Raises UsageError."""
    try:
        write_named(path, json.dumps({"schema": SCHEMA, **asdict(record)}, indent=1) + "\n")
    except OSError as fault:
        raise UsageError(
            f"cannot write {path[:200]}: {fault.strerror}", "name another file"
        ) from None


def read_record(path: str) -> Record:
    """Read what `write_record` wrote. Raises UsageError for anything else."""
    try:
        data = json.loads(read_named(path, _LIMIT))
    except OSError as fault:
        raise UsageError(
            f"cannot read {path[:200]}: {fault.strerror}", "doctor smoke URL --record F"
        ) from None
    except (ValueError, RecursionError):
        data = None
    if not isinstance(data, dict) or data.get("schema") != SCHEMA:
        raise UsageError(f"{path[:200]} holds no recorded figures", "doctor smoke URL --record F")
    own, text = finite(data.get("own")), finite(data.get("text"))
    if own is None:
        raise UsageError(f"{path[:200]}: its figures are no numbers", "record them again")
    return Record(str(data.get("model", "")), own, text, str(data.get("answer", "")))
