"""The page of a rule or cause, taken from the rule's own docstring and the list of causes."""

from __future__ import annotations

import inspect
from dataclasses import dataclass

from doctor.errors import UsageError
from doctor.matrix import Matrix
from doctor.rules.engine import Rule
from doctor.rules.registry import RULES

HEADINGS = ("What", "Why", "How to fix", "Silent when", "Sources")


@dataclass(frozen=True)
class Page:
    """A rule's page: its one-line summary and the text under each heading."""

    rule: Rule
    summary: str
    sections: dict[str, str]


def page_of(rule: Rule) -> Page:
    """Take a rule's docstring apart at its headings."""
    lines = inspect.cleandoc(rule.page).splitlines()
    sections: dict[str, list[str]] = {}
    current: list[str] = []
    for line in lines[1:]:
        heading = next((h for h in HEADINGS if line.startswith(f"{h}:")), None)
        if heading:
            current = sections.setdefault(heading, [])
        current.append(line.removeprefix(f"{heading}:").strip())
    texts = {name: " ".join(part for part in parts if part) for name, parts in sections.items()}
    return Page(rule, lines[0] if lines else "", texts)


def pages_for(name: str, matrix: Matrix) -> tuple[Page, ...]:
    """Pages of a code ("DRV101") or of all rules of a cause ("driver-too-old").

    Raises UsageError for an unknown name, with the nearest names as the hint.
    """
    wanted = name.strip()
    found = [r for r in RULES if wanted.upper() == r.code or wanted.lower() == r.cause]
    if found:
        return tuple(page_of(rule) for rule in found)
    if wanted.lower() in matrix.causes:
        return ()
    raise UsageError(f"no code or cause {wanted[:60]!r}", _nearest(wanted, matrix))


def _nearest(name: str, matrix: Matrix) -> str:
    import difflib

    names = [*matrix.causes, *(rule.code for rule in RULES)]
    near = difflib.get_close_matches(name.lower(), names, n=3, cutoff=0.4)
    return f"did you mean {' or '.join(near)}?" if near else "`doctor explain` lists all of them"


def symptoms(cause: str, matrix: Matrix) -> tuple[str, ...]:
    """Causes that are often only symptoms of this one."""
    return tuple(name for name, row in matrix.causes.items() if cause in row.after)


def section(code: str, heading: str) -> str:
    """The text under one heading of a rule's page, or "" for an unknown code."""
    rule = next((r for r in RULES if r.code == code), None)
    return page_of(rule).sections.get(heading, "") if rule else ""
