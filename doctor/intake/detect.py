"""Recognise what was handed over and turn it into facts."""

from __future__ import annotations

import errno
import os
import re
import sys
from dataclasses import dataclass
from pathlib import Path

from doctor.errors import UsageError
from doctor.facts import Facts
from doctor.intake import case_file, document, field_report, snapshot
from doctor.intake.document import read_document
from doctor.intake.formats import requirements
from doctor.intake.paste import read_paste
from doctor.intake.text import plain
from doctor.named_files import read_named

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
    """The text of a regular file, or of standard input for "-", of at most 64 MiB.

    Raises UsageError for what is no text, cannot be read, or is longer.
    """
    label = label_of(path)
    try:
        content = _from_stdin() if str(path) == "-" else read_named(path, _LIMIT + 1)
    except (OSError, ValueError) as fault:
        reason = getattr(fault, "strerror", None) or str(fault)
        is_odd = getattr(fault, "errno", None) == errno.EINVAL
        hint = "pipe it in and name it -" if is_odd else "check the path and its permissions"
        if os.path.isdir(path):
            hint = "name a file in it; `doctor check --facts-dir` takes a folder of hosts"
        raise UsageError(f"{label}: {reason}", hint) from None
    return text_of(content, label)


def text_of(content: bytes, label: str) -> str:
    """The text of a file; raises UsageError for what is empty, no text, or longer than 64 MiB."""
    if len(content) > _LIMIT:
        raise UsageError(f"{label}: larger than 64 MiB", "cut it down to what matters")
    text = content.decode("utf-8-sig", errors="replace")
    if not text.strip():
        raise UsageError(f"{label}: empty", "name a file that holds the facts or the log")
    if "\0" in text[:4096]:
        raise UsageError(f"{label}: not a text", "hand over text, JSON or YAML")
    return text


def label_of(path: str | Path) -> str:
    """How messages name an input."""
    return "standard input" if str(path) == "-" else str(path) or "''"


def _from_stdin() -> bytes:
    if sys.stdin is None:
        raise OSError(errno.EBADF, "closed")
    return sys.stdin.buffer.read(_LIMIT + 1)


def parse_input(text: str, name: str = "") -> Understood:
    """Recognise `text` and read it; raises UsageError if it is nothing that doctor knows."""
    label = label_of(name or "input")
    if snapshot.looks_like(text):
        return _understood(snapshot.read_snapshot(text, label), "snapshot")
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
