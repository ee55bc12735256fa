"""The list of all rules, in code order within each rung."""

from __future__ import annotations

from doctor.rules import (
    cuda_code,
    driver_fabric,
    driver_floor,
    driver_match,
    driver_modules,
    driver_state,
)
from doctor.rules.engine import Rule

RULES: tuple[Rule, ...] = (
    *driver_floor.RULES,
    *driver_match.RULES,
    *driver_modules.RULES,
    *driver_fabric.RULES,
    *driver_state.RULES,
    *cuda_code.RULES,
)
