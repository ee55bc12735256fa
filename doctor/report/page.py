"""What `doctor explain` prints."""

from __future__ import annotations

import textwrap

from doctor.explain import HEADINGS, Page, pages_for, related
from doctor.matrix import Matrix
from doctor.rules.registry import RULES

_WIDTH = 96


def render_pages(name: str, matrix: Matrix) -> str:
    """The pages of a code or cause; raises UsageError for an unknown name."""
    pages = pages_for(name, matrix)
    if not pages:
        cause = matrix.causes[name.strip().lower()]
        return f"{name.strip().lower()}: {cause.text}\n"
    return "\n".join(_page(page, matrix) for page in pages)


def _page(page: Page, matrix: Matrix) -> str:
    rule = page.rule
    head = f"{rule.code} {rule.cause} ({rule.severity.value}, rung {_rung(rule.cause, matrix)})"
    lines = [head, *textwrap.wrap(page.summary, _WIDTH), ""]
    for heading in HEADINGS:
        text = page.sections.get(heading, "")
        indent = " " * 13
        lines += textwrap.wrap(
            text, _WIDTH, initial_indent=f"{heading:<13}", subsequent_indent=indent
        )
    near = related(rule.cause, matrix)
    if near:
        lines += textwrap.wrap(
            f"Related      {', '.join(near)}", _WIDTH, subsequent_indent=" " * 13
        )
    return "\n".join(lines) + "\n"


def _rung(cause: str, matrix: Matrix) -> str:
    return matrix.causes[cause].rung or "none"


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
