"""Recognise what was handed over and turn it into facts."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from doctor.errors import UsageError
from doctor.facts import Facts
from doctor.intake import case_file, field_report, snapshot
from doctor.intake.document import read_document

_LIMIT = 64 << 20


@dataclass(frozen=True)
class Understood:
    """Facts, what the input was taken for ("nvidia-smi table"), and what stayed unclear."""

    facts: Facts
    formats: tuple[str, ...]
    notes: tuple[str, ...] = ()


def read_input(path: str | Path) -> Facts:
    """Read facts from a file; raises UsageError if it cannot be read or understood."""
    return parse_input(read_text(path), str(path)).facts


def read_text(path: str | Path) -> str:
    """The text of a regular file of at most 64 MiB; raises UsageError."""
    file = Path(path)
    try:
        if not file.is_file():
            raise UsageError(f"{path}: not a file", "name a file that holds the facts")
        if file.stat().st_size > _LIMIT:
            raise UsageError(f"{path}: larger than 64 MiB", "cut it down to what matters")
        return file.read_bytes().decode("utf-8-sig", errors="replace")
    except OSError as fault:
        reason = fault.strerror or str(fault)
        raise UsageError(f"{path}: {reason}", "check the path and its permissions") from None


def parse_input(text: str, name: str = "") -> Understood:
    """Recognise `text` and read it; raises UsageError if it is nothing that doctor knows."""
    if snapshot.looks_like(text):
        return _understood(snapshot.read_snapshot(text, name), "snapshot")
    document = read_document(text, name)
    if case_file.looks_like(document):
        return _understood(case_file.read_case_file(document), "case file")
    if field_report.looks_like(document):
        return _understood(field_report.read_field_report(document), "field report")
    raise UsageError(
        f"{name or 'input'}: neither a snapshot, a field report nor a case file",
        "see docs/facts.md for the formats",
    )


def _understood(facts: Facts, what: str) -> Understood:
    return Understood(facts, (what,), facts.notes)
