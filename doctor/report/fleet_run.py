"""What a verb did on many machines, for people and for programs: a row a machine."""

from __future__ import annotations

import json
import textwrap
from collections import Counter
from collections.abc import Iterator
from typing import TextIO

from doctor.provision.fleet import CLEAN, DONE, FleetRun, Row
from doctor.report import Style
from doctor.report.clean import clean_line
from doctor.report.paint import paint

SCHEMA = "doctor/fleet-run/v1"
_NAME, _STATE = 28, 14


def render_text(run: FleetRun, style: Style) -> str:
    """The rows in the order of the inventory, and what they come to."""
    lines = []
    for row in run.rows:
        number = f"[{row.batch}]" if row.batch else ""
        batch = f"{number:<5}" if any(r.batch for r in run.rows) else ""
        name = f"{batch}{clean_line(row.host, 60):<{_NAME}} "
        lines.append(f"{name}{_state(row, style)} {_words(row, style)}".rstrip())
        lines += list(_steps(row, style))
    counted = Counter(row.state for row in run.rows)
    total = ", ".join(f"{count} {state}" for state, count in counted.most_common())
    lines += ["", f"{run.verb} {clean_line(run.profile)}, {_hosts(len(run.rows))}: {total}"]
    if run.stopped:
        lines += textwrap.wrap(f"stopped: {clean_line(run.stopped)}", style.width)
    lines += _to_go_on(run)
    return "\n".join(lines) + "\n"


def _to_go_on(run: FleetRun) -> Iterator[str]:
    """What a person does next: unfinished machines one by one, then the same again."""
    unfinished = [row for row in run.rows if row.again]
    for row in unfinished:
        yield f"unfinished on {clean_line(row.host, 60)}: {clean_line(row.again, 500)}"
    if unfinished:
        yield "or undo it there: the same words with rollback in place of apply and no --resume"
    if run.stopped:
        yield "then the same command again: machines that are done are left alone"


def _hosts(number: int) -> str:
    return f"{number} host{'s' if number != 1 else ''}"


def _state(row: Row, style: Style) -> str:
    colour = "green" if row.state in (DONE, CLEAN) else "yellow" if not row.code else "red"
    return paint(style, f"{row.state:<{_STATE}}", colour)


def _words(row: Row, style: Style) -> str:
    limit = 2000 if style.verbose else 160
    if row.text:
        return clean_line(row.text, limit)
    return f"{len(row.steps)} steps" if row.steps else ""


def _steps(row: Row, style: Style) -> Iterator[str]:
    if style.verbose:
        yield from (f"      {clean_line(step)}" for step in row.steps)


def render_json(run: FleetRun) -> str:
    """The same for programs."""
    found = {
        "schema": SCHEMA,
        "verb": run.verb,
        "profile": run.profile,
        "stopped": run.stopped,
        "hosts": [
            {
                "host": row.host,
                "target": row.target,
                "state": row.state,
                "text": row.text,
                "steps": list(row.steps),
                "run": row.run,
                "seconds": row.seconds,
                "batch": row.batch,
                "again": row.again,
            }
            for row in run.rows
        ],
    }
    return json.dumps(found, indent=1) + "\n"


class RowProgress:
    """Tells of machines as they end, a line each."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __call__(self, row: Row) -> None:
        """One machine has ended."""
        text = f": {clean_line(row.text, 120)}" if row.text and row.code else ""
        batch = f"[{row.batch}] " if row.batch else ""
        self._stream.write(f"{batch}{clean_line(row.host, 60)} {row.state}{text}\n")
        self._stream.flush()
