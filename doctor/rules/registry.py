"""The list of all rules, in code order within each rung."""

from __future__ import annotations

from doctor.rules.engine import Rule

RULES: tuple[Rule, ...] = ()
