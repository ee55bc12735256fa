"""What the roles of a driver are told, and which files differ. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from doctor.errors import ProvisionError
from doctor.provision.driver.sets import DriverSet, Package
from doctor.provision.goal import Goal, ManagedFile, parse_goal
from doctor.provision.step import FileDiff
from doctor.provision.survey import FileState, State
from doctor.provision.variables import applied_file


def driver_files(goal: Goal) -> dict[str, ManagedFile]:
    """Files of a driver by path, with doctor's own note of it where it is doctor's."""
    noted = goal.driver is not None and bool(goal.driver.scheme)
    files = (*goal.files, applied_file(goal)) if noted else goal.files
    return {file.path: file for file in files}


def driver_variables(
    state: str, wanted: DriverSet, packages: Sequence[Package], absent: Sequence[str]
) -> dict[str, Any]:
    """What the role nvidia_driver is told."""
    rows = [msgspec.to_builtins(package) for package in packages]
    return {
        "nvidia_driver_state": state,
        "nvidia_driver_packages": rows,
        "nvidia_driver_absent": list(absent),
        "nvidia_driver_purge": wanted.purges,
        "nvidia_driver_version": wanted.version,
        "nvidia_driver_builds": wanted.builds,
        "nvidia_driver_units": list(wanted.units),
    }


def file_diffs(goal: Goal, state: State, folders: Sequence[str]) -> list[FileDiff]:
    """Files below these folders that differ from the goal, and those that it does not know."""
    wanted = driver_files(goal)
    found = []
    for path in sorted({*wanted, *state.files}):
        there, file = state.files.get(path), wanted.get(path)
        same = _same(file, there) or _says_the_same(goal, path, there)
        if path.startswith(tuple(folders)) and not same:
            found.append(FileDiff(path, there.text if there else None, file.text if file else None))
    return found


def _same(file: ManagedFile | None, there: FileState | None) -> bool:
    if file is None or there is None:
        return file is None and there is None
    return (there.text, there.mode) == (file.text, file.mode)


def _says_the_same(goal: Goal, path: str, there: FileState | None) -> bool:
    """Doctor's own note may be of a doctor that knew fewer keys, and mean the same."""
    if path != applied_file(goal).path or there is None or not there.text:
        return False
    try:
        return parse_goal(there.text, path) == goal and there.mode == applied_file(goal).mode
    except ProvisionError:
        return False


def present(goal: Goal, diffs: Sequence[FileDiff]) -> list[dict[str, Any]]:
    """The files among these differences that shall be there."""
    wanted = driver_files(goal)
    return [msgspec.to_builtins(wanted[d.path]) for d in diffs if d.path in wanted]
