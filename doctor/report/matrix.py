"""What `doctor matrix` prints."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator
from typing import Any

from doctor.matrix.lookup import Answer, Record, Section
from doctor.report import Style
from doctor.report.clean import clean_line

_LABEL = 20
# Where a row comes from stands last; these are left out: of use only to programs.
_PROVENANCE = ("source", "confidence", "checked", "note")
_LONG = frozenset(("files", "override", "reason"))
# More rows than this are listed one a line, by what fits there.
_MANY = 12
_CELL = 48
_LINE = 4000
_COLUMNS = 6
_GAP, _LEAST = 2, 8


def render_json(answer: Answer) -> str:
    """The rows as they are, by section."""
    wire = {
        "schema": "doctor/matrix-answer/v1",
        "title": answer.title,
        "found": answer.found,
        "sections": {section.title: section.rows for section in answer.sections},
    }
    return json.dumps(wire, indent=2) + "\n"


def render_text(answer: Answer, style: Style) -> str:
    """Sections of rows; lists of short rows as a table, one row a line."""
    lines = [clean_line(answer.title)]
    for section in answer.sections:
        lines += ["", section.title]
        lines += _table(section, style) if _is_short(section) else _blocks(section, style)
    return "\n".join(lines) + "\n"


def _is_short(section: Section) -> bool:
    """Tell whether a line a row is best: many rows, or rows that are made for a table."""
    if section.columns or len(section.rows) > _MANY:
        return True
    return all("source" not in row for row in section.rows)


def _table(section: Section, style: Style) -> Iterator[str]:
    columns = _columns(section)
    cells = [[_cell(row.get(key)) for key in columns] for row in section.rows]
    widths = [max(map(len, column)) for column in zip(columns, *cells, strict=True)]
    if style.cut:
        widths = _narrowed(widths, style.width - _GAP * len(widths))
    for line in (columns, *cells):
        pairs = zip(line, widths, strict=True)
        texts = (f"{_shortened(cell, width):<{width}}" for cell, width in pairs)
        yield (" " * _GAP + (" " * _GAP).join(texts)).rstrip()


def _narrowed(widths: list[int], room: int) -> list[int]:
    """Take from the widest columns until all fit; none below what a cell must show."""
    while sum(widths) > room and max(widths) > _LEAST:
        widest = widths.index(max(widths))
        widths = [width - (place == widest) for place, width in enumerate(widths)]
    return widths


def _cell(value: Any) -> str:
    return _shortened(clean_line(_text(value), _LINE), _CELL)


def _shortened(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: width - 3]}..."


def _columns(section: Section) -> list[str]:
    """What a table shows: what was asked for, else the first keys whose values fit a cell."""
    if section.columns:
        return [c for c in section.columns if any(row.get(c) for row in section.rows)]
    keys = dict.fromkeys(key for row in section.rows for key in row)
    fit = [key for key in keys if key not in (*_PROVENANCE, *_LONG) and _fits(section, key)]
    return fit[:_COLUMNS]


def _fits(section: Section, key: str) -> bool:
    return all(len(_text(row.get(key))) <= _CELL for row in section.rows)


def _blocks(section: Section, style: Style) -> Iterator[str]:
    for number, row in enumerate(section.rows):
        if number:
            yield ""
        yield from _block(row, style)


def _block(row: Record, style: Style) -> Iterator[str]:
    keys = (*(key for key in row if key not in _PROVENANCE), *_PROVENANCE)
    for key in keys:
        text = clean_line(_text(row.get(key)), _LINE)
        if text and key not in _LONG:
            yield from textwrap.wrap(
                text,
                style.width,
                initial_indent=f"  {key:<{_LABEL}}",
                subsequent_indent=" " * (_LABEL + 2),
                break_on_hyphens=False,
            )


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else ""
    if isinstance(value, dict):
        return "; ".join(f"{key} {_text(item)}" for key, item in value.items())
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, (list, tuple)):
        return ", ".join(_text(item) for item in value)
    return "" if value is None else str(value)
