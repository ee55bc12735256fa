"""What differs between two drivers or versions, and what that means on a host."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator
from typing import Any

from doctor.diffing import Answer, Comparison
from doctor.findings import Finding
from doctor.matrix.diff import Names
from doctor.report import Style
from doctor.report.clean import clean_line

_LABEL = 28
_SHOWN = 12


def render_text(found: Comparison, style: Style) -> str:
    """Sections of changes; long lists of names are cut unless `verbose`."""
    return "\n".join(_lines(found, style)) + "\n"


def _lines(found: Comparison, style: Style) -> Iterator[str]:
    both = found.difference
    yield f"{both.old.label} -> {both.new.label}"
    for note in both.notes:
        yield from _wrapped(note, "  ", style)
    for change in both.changes:
        text = f"{change.old or '-'} -> {change.new or '-'}"
        yield from _wrapped(text, f"  {change.what:<{_LABEL - 1}} ", style)
    if not both.changes and not both.names and not both.notes:
        yield "  nothing that the matrix knows of"
    for names in both.names:
        yield from _names(names, style)
    if found.source:
        yield ""
        yield f"on {clean_line(found.source)}"
        yield from _host(found, style)


def _names(names: Names, style: Style) -> Iterator[str]:
    for sign, listed in (("gone", names.gone), ("new", names.come)):
        if listed:
            text = _some(listed, style)
            yield from _wrapped(text, f"  {f'{names.kind}, {sign}':<{_LABEL}}", style)


def _some(names: tuple[str, ...], style: Style) -> str:
    shown = names if style.verbose else names[:_SHOWN]
    more = f" and {len(names) - len(shown)} more" if len(names) > len(shown) else ""
    return ", ".join(shown) + more


def _host(found: Comparison, style: Style) -> Iterator[str]:
    for answer in found.answers:
        text = answer.new if answer.old == answer.new else f"{answer.old} -> {answer.new}"
        yield from _wrapped(text, f"  {answer.subject:<{_LABEL}}", style)
    for word, findings in (("no longer", found.gone), ("from then on", found.come)):
        for finding in findings:
            text = f"{finding.cause} [{finding.code}]: {finding.message}"
            yield from _wrapped(text, f"  {word:<{_LABEL}}", style)
    if not found.answers and not found.gone and not found.come:
        yield "  nothing changes"


def _wrapped(text: str, head: str, style: Style) -> Iterator[str]:
    yield from textwrap.wrap(
        clean_line(text, 4000),
        style.width,
        initial_indent=head,
        subsequent_indent=" " * (_LABEL + 2),
        break_on_hyphens=False,
        break_long_words=False,
    )


def render_json(found: Comparison) -> str:
    """doctor/matrix-diff/v1."""
    both = found.difference
    wire: dict[str, Any] = {
        "schema": "doctor/matrix-diff/v1",
        "old": both.old.label,
        "new": both.new.label,
        "notes": list(both.notes),
        "changes": [{"what": c.what, "old": c.old, "new": c.new} for c in both.changes],
        "names": [{"kind": n.kind, "gone": list(n.gone), "come": list(n.come)} for n in both.names],
        "host": _wire(found) if found.source else None,
    }
    return json.dumps(wire, indent=2, ensure_ascii=False) + "\n"


def _wire(found: Comparison) -> dict[str, Any]:
    return {
        "source": found.source,
        "answers": [_answer(answer) for answer in found.answers],
        "gone": [_finding(finding) for finding in found.gone],
        "come": [_finding(finding) for finding in found.come],
    }


def _answer(answer: Answer) -> dict[str, str]:
    return {"subject": answer.subject, "old": answer.old, "new": answer.new}


def _finding(finding: Finding) -> dict[str, str]:
    return {"code": finding.code, "cause": finding.cause, "message": finding.message}
