"""Which engines to try: the one that was named, else those that suit the aim, best first."""

from __future__ import annotations

import difflib

from doctor.errors import UsageError
from doctor.matrix import Matrix
from doctor.stack.model import Ask, Choice

GOALS = ("throughput", "latency", "local", "multi-turn", "cross-platform")
_ANY = ("", "any")


def choices(matrix: Matrix, ask: Ask, vendor: str) -> tuple[Choice, ...]:
    """Engines to try in turn, with the reason for each; one without reason if it was named.

    Raises UsageError for an engine that the matrix does not know, or if no engine of the
    matrix serves the aim on such devices.
    """
    if ask.engine not in _ANY:
        return (Choice(known_engine(matrix, ask.engine), "", ""),)
    goal = ask.goal or ("local" if vendor == "cpu" else "throughput")
    rows = [row for row in matrix.stacks.goals if row.vendor == vendor]
    found = [row for row in rows if row.goal == goal]
    if not found:
        known = ", ".join(dict.fromkeys(row.goal for row in rows)) or "none"
        raise UsageError(
            f"no engine is known for goal {goal!r} on {vendor} devices",
            f"goals known for them: {known}; or name an engine",
        )
    return tuple(Choice(row.engine, goal, row.why, row.source) for row in found)


def known_engine(matrix: Matrix, name: str) -> str:
    """The engine of that name or alias; raises UsageError with the nearest names."""
    from doctor.intake.names import engine_name

    found = matrix.canonical(name) or matrix.canonical(engine_name(name))
    if found is not None and found in engines(matrix):
        return found
    listed = engines(matrix)
    near = difflib.get_close_matches(name.lower(), listed, n=2)
    hint = f"did you mean {' or '.join(near)}? " if near else ""
    raise UsageError(
        f"no engine {name[:60]!r} that could be installed", f"{hint}known: {', '.join(listed)}"
    )


def engines(matrix: Matrix) -> tuple[str, ...]:
    """Engines of which the matrix knows how they are delivered."""
    named = [row.engine for row in matrix.stacks.deliveries]
    named += [row.engine for row in matrix.images if row.form]
    return tuple(dict.fromkeys(named))
