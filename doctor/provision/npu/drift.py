"""What of the software of NPUs is no longer what was applied. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from doctor.provision.goal import Goal
from doctor.provision.survey import State


def differences(goal: Goal, state: State) -> Iterator[tuple[str, str, str]]:
    """Kind, subject and text of each part at another version."""
    there = state.npu
    if goal.npu is None or there is None:
        return
    for part in goal.npu.parts:
        if not there.has(part):
            version = there.versions.get(part.kind)
            seen = version or ("not there" if version == "" else "not known")
            yield "npu", part.kind, f"is {seen}, {part.version} was applied"
