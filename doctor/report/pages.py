"""The pages of rules as reports quote them."""

from __future__ import annotations

from doctor.explain import HEADINGS, Page, page_of
from doctor.rules.registry import RULES


def page(code: str) -> Page | None:
    """The page of a code, or None for a code without a rule."""
    return next((page_of(rule) for rule in RULES if rule.code == code), None)


def summary(code: str) -> str:
    """The first line of a code's page, or ""."""
    found = page(code)
    return found.summary if found else ""


def parts(code: str) -> list[tuple[str, str]]:
    """Headings and their texts, in the order of the page."""
    found = page(code)
    sections = found.sections if found else {}
    return [(name, sections[name]) for name in HEADINGS if sections.get(name)]
