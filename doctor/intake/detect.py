"""Recognise what was handed over and turn it into facts."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from doctor.errors import UsageError
from doctor.facts import Facts
from doctor.intake import case_file, document, field_report, snapshot
from doctor.intake.document import read_document
from doctor.intake.formats import requirements
from doctor.intake.paste import read_paste
from doctor.intake.text import plain

_LIMIT = 64 << 20
_REQUIREMENTS = re.compile(r"requirements[^/]{0,80}\.(?:txt|in)$")
DOCUMENT_KEYS = field_report.KEYS | {"report", "expect", "id", "source", "summary", "reported"}


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
    label = name or "input"
    if "\0" in text[:4096]:
        raise UsageError(f"{label}: not a text", "hand over text, JSON or YAML")
    if snapshot.looks_like(text):
        return _understood(snapshot.read_snapshot(text, name), "snapshot")
    cleaned = plain(text)
    if document.looks_like(cleaned, DOCUMENT_KEYS):
        return _from_document(read_document(cleaned, label), label)
    if _REQUIREMENTS.search(label) and requirements.looks_like(cleaned):
        return _understood(requirements.parse(cleaned), "requirements")
    facts, formats = read_paste(cleaned)
    if not formats:
        raise UsageError(
            f"{label}: nothing in it is known", "see docs/facts.md for what can be handed over"
        )
    return Understood(facts, formats, facts.notes)


def _from_document(data: object, label: str) -> Understood:
    if case_file.looks_like(data):
        return _understood(case_file.read_case_file(data), "case file")
    if field_report.looks_like(data):
        return _understood(field_report.read_field_report(data), "field report")
    raise UsageError(f"{label}: neither a field report nor a case file", "see docs/facts.md")


def _understood(facts: Facts, what: str) -> Understood:
    return Understood(facts, (what,), facts.notes)
