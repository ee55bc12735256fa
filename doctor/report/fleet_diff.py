"""What has changed in a fleet, for people and for programs."""

from __future__ import annotations

import json
import textwrap
from dataclasses import dataclass

from doctor.report import Style
from doctor.report.clean import clean_line

SCHEMA = "doctor/fleet-diff/v1"
_NAMES = 8


@dataclass(frozen=True)
class FleetChange:
    """One thing that changed in the same way on these hosts; "" is what is not known or there."""

    what: str
    before: str
    after: str
    hosts: tuple[str, ...]


@dataclass(frozen=True)
class FleetDiff:
    """Two folders of snapshots side by side."""

    before: str
    after: str
    added: tuple[str, ...]
    removed: tuple[str, ...]
    changes: tuple[FleetChange, ...]
    same: int

    @property
    def is_empty(self) -> bool:
        """True if both hold the same hosts in the same state."""
        return not (self.added or self.removed or self.changes)


def render_text(diff: FleetDiff, style: Style) -> str:
    """Equal changes together, the most common first."""
    lines = [f"new: {clean_line(name)}" for name in diff.added]
    lines += [f"gone: {clean_line(name)}" for name in diff.removed]
    for change in diff.changes:
        lines += _change(change, style)
    lines.append(f"{diff.same} host{'s' if diff.same != 1 else ''} unchanged")
    return "\n".join(lines) + "\n"


def _change(change: FleetChange, style: Style) -> list[str]:
    before, after = change.before or "not seen", change.after or "not seen"
    head = f"{clean_line(change.what)}: {clean_line(before)} -> {clean_line(after)}"
    shown = change.hosts if style.verbose else change.hosts[:_NAMES]
    more = f" and {len(change.hosts) - len(shown)} more" if len(change.hosts) > len(shown) else ""
    names = f"on {len(change.hosts)}: {', '.join(clean_line(n) for n in shown)}{more}"
    return [head, *textwrap.wrap(names, style.width, initial_indent="  ", subsequent_indent="  ")]


def render_json(diff: FleetDiff) -> str:
    """The same for programs."""
    found = {
        "schema": SCHEMA,
        "added": list(diff.added),
        "removed": list(diff.removed),
        "unchanged": diff.same,
        "changes": [
            {"what": c.what, "before": c.before, "after": c.after, "hosts": list(c.hosts)}
            for c in diff.changes
        ],
    }
    return json.dumps(found, indent=1) + "\n"
