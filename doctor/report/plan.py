"""A plan for people and for programs: what would change, why, how to take it back."""

from __future__ import annotations

import difflib
import json
import textwrap

import msgspec

from doctor.provision.plan import Plan
from doctor.provision.step import FileDiff, Step
from doctor.report import Style
from doctor.report.clean import clean, clean_line

SCHEMA = "doctor/plan/v1"
_DIFF_LINES = 40
# doctor's own note of what it applied; its content is that of the others.
_NOTE = "/applied.json"


def render_text(plan: Plan, style: Style) -> str:
    """The plan, step by step."""
    goal = plan.goal
    version = f" {goal.version}" if goal.version else ""
    head = f"{goal.profile}: {goal.engine}{version} on {plan.target}, {goal.home}"
    lines = [clean_line(head)]
    for blocker in plan.blockers:
        lines += _wrapped(f"  cannot go on: {clean(blocker)}", style)
    if plan.is_empty:
        return "\n".join([*lines, "nothing to do: the machine is what it shall be"]) + "\n"
    for number, step in enumerate(plan.steps, 1):
        lines += _step(number, step, style)
    lines += [line for note in plan.notes for line in _wrapped(f"note: {clean(note)}", style)]
    return "\n".join(lines) + "\n"


def _step(number: int, step: Step, style: Style) -> list[str]:
    lines = [clean_line(f"{number}. {step.title}")]
    rows = [
        ("why", step.reason),
        ("risk", step.risk),
        ("downtime", step.downtime),
        ("reboot", "the machine boots again after it" if step.reboots else ""),
        ("undo", step.undo if step.undo != "exact" else ""),
        ("who", step.actor if step.actor != "doctor" else ""),
    ]
    for name, text in rows:
        if text:
            lines += _wrapped(f"   {name + ':':<10}{clean_line(text)}", style, " " * 13)
    if style.verbose:
        lines += [line for diff in step.diffs for line in _diff(diff)]
    return lines


def _diff(diff: FileDiff) -> list[str]:
    if diff.path.endswith(_NOTE):
        return []
    before, after = (diff.before or "").splitlines(), (diff.after or "").splitlines()
    rows = list(difflib.unified_diff(before, after, diff.path, diff.path, lineterm="", n=1))
    cut = [f"... {len(rows) - _DIFF_LINES} more lines"] if len(rows) > _DIFF_LINES else []
    return [f"   {clean_line(row)}" for row in rows[:_DIFF_LINES]] + cut


def _wrapped(text: str, style: Style, indent: str = "    ") -> list[str]:
    return textwrap.wrap(text, style.width, subsequent_indent=indent, break_on_hyphens=False)


def render_json(plan: Plan) -> str:
    """The plan for programs; `inputs` is what apply compares."""
    steps = [msgspec.to_builtins(step) for step in plan.steps]
    found = {
        "schema": SCHEMA,
        "profile": plan.goal.profile,
        "target": plan.target,
        "engine": plan.goal.engine,
        "version": plan.goal.version,
        "home": plan.goal.home,
        "inputs": plan.inputs,
        "blockers": list(plan.blockers),
        "notes": list(plan.notes),
        "steps": steps,
    }
    return json.dumps(found, indent=1, ensure_ascii=False) + "\n"
