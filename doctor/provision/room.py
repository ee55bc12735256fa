"""Whether what must come onto the machine fits there, before anything is changed."""

from __future__ import annotations

from pathlib import Path

from doctor.provision.goal import Goal
from doctor.provision.survey import State
from doctor.provision.variables import Means

# What is never known beforehand: logs, notes, the tools' own files.
_SPARE_MIB = 64
# An environment against its packages: they lie there packed, unpacked and compiled for a while.
_UNPACKED = 4


def no_room(goal: Goal, state: State, means: Means) -> list[str]:
    """What is lacking in words, or nothing. The home's file system is what is looked at."""
    needed = needed_mib(goal, state, means)
    if not needed or needed + _SPARE_MIB <= state.free_mib:
        return []
    return [
        f"about {needed + _SPARE_MIB} MiB are needed below {goal.home}, "
        f"and {state.free_mib} MiB are free there"
    ]


def needed_mib(goal: Goal, state: State, means: Means) -> int:
    """About how much comes onto the machine, as far as it is known."""
    total = 0
    model = goal.model
    if model is not None and model.source and state.models.get(model.path):
        total += sum(record.size for record in model.files.values())
    if goal.release is not None and goal.release.name not in state.releases:
        total += _UNPACKED * _size_of(means.wheels)
    if means.copy_image and state.image:
        total += _file_size(means.image_archive)
    return total >> 20


def _file_size(path: str) -> int:
    """Bytes of a file of this machine; 0 if there is none."""
    try:
        return Path(path).stat().st_size if path else 0
    except OSError:
        return 0


def _size_of(folder: str) -> int:
    """Bytes of the files in a folder of this machine; 0 if there is none yet."""
    if not folder:
        return 0
    try:
        return sum(path.stat().st_size for path in Path(folder).glob("*.whl"))
    except OSError:
        return 0
