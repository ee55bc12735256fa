"""What belongs to a service beside its engine: timers, files for monitoring. Steps and drift.

An extra is a set of files with the role that lays them; it is planned, compared and taken away
like the service itself, by its own steps.
"""

from __future__ import annotations

from typing import Any

import msgspec

from doctor.provision.goal import Extra, Goal, parse_goal
from doctor.provision.step import EXACT, NONE, FileDiff, Step
from doctor.provision.survey import State

_TITLES = {"timers": "the timers", "monitoring": "the files for Prometheus"}


def paths_of(goal: Goal) -> set[str]:
    """Files of all extras of a goal."""
    return {file.path for extra in goal.extras for file in extra.files}


def applied_extras(state: State) -> tuple[Extra, ...]:
    """The extras that were applied last, as the machine notes them."""
    if not state.applied:
        return ()
    return parse_goal(state.applied, f"{state.home}/applied.json").extras


def known_paths(goal: Goal, state: State) -> set[str]:
    """Files of extras, wanted or applied before: the service leaves them to their own roles."""
    before = {file.path for extra in applied_extras(state) for file in extra.files}
    return paths_of(goal) | before


def extra_steps(goal: Goal, state: State) -> list[Step]:
    """One step for each role whose files or units are not as wanted."""
    before = {extra.role: extra for extra in applied_extras(state)}
    wanted = {extra.role: extra for extra in goal.extras}
    steps = [_step(goal, state, role, wanted.get(role), before.get(role)) for role in _TITLES]
    return [step for step in steps if step is not None]


def _step(
    goal: Goal, state: State, role: str, wanted: Extra | None, before: Extra | None
) -> Step | None:
    files = wanted.files if wanted else ()
    mine = {file.path for file in files}
    gone = [f.path for f in (before.files if before else ()) if f.path not in mine]
    gone = [path for path in gone if state.files.get(path) is not None]
    diffs = [
        FileDiff(file.path, _text(state, file.path), file.text)
        for file in files
        if not _same(state, file.path, file.text, file.mode)
    ]
    diffs += [FileDiff(path, _text(state, path), None) for path in gone]
    idle = [unit for unit in (wanted.units if wanted else ()) if not is_waiting(state, unit)]
    options = wanted.options if wanted else {**(before.options if before else {}), **_OFF[role]}
    changed = wanted is not None and (before is None or before.options != wanted.options)
    if not diffs and not idle and not changed:
        return None
    return Step(
        name=f"set_{role}" if wanted else f"remove_{role}",
        role=role,
        title=f"{'lay out' if wanted else 'take away'} {_TITLES[role]} of {goal.profile}",
        reason="; ".join([*map(_difference, diffs), *(f"{unit} does not wait" for unit in idle)])
        or "other settings are wanted",
        undo=NONE if options.get("monitoring_node_exporter") else EXACT,
        diffs=tuple(diffs),
        variables=_variables(goal, role, wanted, gone, options),
    )


# What a role is told in place of an option when its extra goes.
_OFF: dict[str, dict[str, Any]] = {
    "timers": {},
    "monitoring": {"monitoring_node_exporter": False},
}


def _variables(
    goal: Goal, role: str, wanted: Extra | None, gone: list[str], options: dict[str, Any]
) -> dict[str, Any]:
    files = wanted.files if wanted else ()
    found: dict[str, Any] = {
        f"{role}_home": goal.home,
        f"{role}_files": [msgspec.to_builtins(file) for file in files],
        f"{role}_remove": gone,
        **options,
    }
    if role == "timers":
        found["timers_scope"] = goal.scope
        found["timers_units"] = list(wanted.units) if wanted else []
    return found


def is_waiting(state: State, unit: str) -> bool:
    """True if a timer is active and enabled, by its newest file."""
    seen = state.timers.get(unit, {})
    wanted = {"ActiveState": "active", "UnitFileState": "enabled", "NeedDaemonReload": "no"}
    return all(seen.get(name) == value for name, value in wanted.items())


def _difference(diff: FileDiff) -> str:
    if diff.after is None:
        return f"{diff.path} is not wanted"
    return f"{diff.path} is {'not there' if diff.before is None else 'another'}"


def _same(state: State, path: str, text: str, mode: int) -> bool:
    there = state.files.get(path)
    return there is not None and there.text == text and there.mode == mode


def _text(state: State, path: str) -> str | None:
    there = state.files.get(path)
    return there.text if there else None
