"""What `doctor explain` prints."""

from __future__ import annotations

import textwrap

from doctor.explain import HEADINGS, Page, pages_for, symptoms
from doctor.matrix import Matrix
from doctor.report import Style
from doctor.report.paint import paint
from doctor.rules.registry import RULES

_LABEL = 13


def render_pages(name: str, matrix: Matrix, style: Style) -> str:
    """What is known of a code or cause: the cause, its rules, its relatives.

    Raises UsageError for an unknown name.
    """
    pages = pages_for(name, matrix)
    slug = pages[0].rule.cause if pages else name.strip().lower()
    lines = _cause(slug, matrix, style)
    for page in pages:
        lines += ["", *_page(page, style)]
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _cause(slug: str, matrix: Matrix, style: Style) -> list[str]:
    cause = matrix.causes[slug]
    lines = [paint(style, slug, "bold"), *textwrap.wrap(cause.text, style.width)]
    lines += _field("Rung", cause.rung or "none", style)
    lines += _field("Look first", ", ".join(cause.after), style)
    lines += _field("Brings along", ", ".join(symptoms(slug, matrix)), style)
    codes = [rule.code for rule in RULES if rule.cause == slug]
    return lines + _field("Rules", " ".join(codes), style)


def _page(page: Page, style: Style) -> list[str]:
    rule = page.rule
    head = f"{paint(style, rule.code, 'bold')} {rule.severity.value}: "
    lines = textwrap.wrap(page.summary, max(style.width - len(rule.code) - 9, 20))
    lines[:1] = [head + lines[0]] if lines else [head]
    for heading in HEADINGS:
        lines += _field(heading, page.sections.get(heading, ""), style)
    return lines


def _field(label: str, text: str, style: Style) -> list[str]:
    if not text:
        return []
    first, *rest = textwrap.wrap(text, max(style.width - _LABEL, 20), break_on_hyphens=False)
    return [f"{label:<{_LABEL}}{first}", *(" " * _LABEL + line for line in rest)]


def render_list(matrix: Matrix) -> str:
    """All causes by rung, with the codes that can name them."""
    lines: list[str] = []
    for rung in matrix.cause_domain.rungs:
        lines.append(rung)
        for name, cause in matrix.causes.items():
            if cause.rung == rung:
                codes = " ".join(rule.code for rule in RULES if rule.cause == name)
                lines.append(f"  {name:<34}{codes}")
    return "\n".join(lines) + "\n"
