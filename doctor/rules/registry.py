"""The list of all rules, in code order within each rung."""

from __future__ import annotations

from doctor.rules import (
    cuda_code,
    driver_fabric,
    driver_floor,
    driver_match,
    driver_modules,
    driver_state,
    engine_features,
    engine_support,
    framework,
    framework_abi,
    framework_pins,
    model,
    model_parallel,
    python,
    python_requirements,
    python_toolchain,
)
from doctor.rules.engine import Rule

RULES: tuple[Rule, ...] = (
    *driver_floor.RULES,
    *driver_match.RULES,
    *driver_modules.RULES,
    *driver_fabric.RULES,
    *driver_state.RULES,
    *cuda_code.RULES,
    *python.RULES,
    *python_requirements.RULES,
    *python_toolchain.RULES,
    *framework.RULES,
    *framework_pins.RULES,
    *framework_abi.RULES,
    *engine_support.RULES,
    *engine_features.RULES,
    *model.RULES,
    *model_parallel.RULES,
)
