"""One change to a machine, as a plan has it."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

DOCTOR, PERSON = "doctor", "a person"
EXACT, NEEDS_REBOOT, NONE = "exact", "needs-reboot", "none"


class FileDiff(Struct, frozen=True):
    """One file before and after; None where there is none."""

    path: str
    before: str | None
    after: str | None


class Step(Struct, frozen=True, kw_only=True):
    """One change: `role` makes it with `variables`; `undo` is exact, needs-reboot or none.

    `reboots` if the machine must boot again after it, before the next step.
    """

    name: str
    role: str
    title: str
    reason: str
    risk: str = "none for what runs now"
    undo: str = EXACT
    actor: str = DOCTOR
    downtime: str = ""
    reboots: bool = False
    services: tuple[str, ...] = ()
    diffs: tuple[FileDiff, ...] = ()
    variables: dict[str, Any] = {}
