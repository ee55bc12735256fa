"""Steps after the packages: load the modules where there are cards, start services. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from doctor.provision.driver.sets import DriverSet, DriverState, Package
from doctor.provision.driver.telling import driver_variables
from doctor.provision.step import Step

_ON = frozenset({"enabled", "enabled-runtime", "static", "alias", "indirect"})
_ROLES = {
    "nvidia-persistenced.service": ("persistence", "keeps the GPUs initialised"),
    "nvidia-fabricmanager.service": ("fabric_manager", "NVSwitch needs it before any CUDA call"),
}


def service_steps(
    wanted: DriverSet, there: DriverState, moved: Sequence[Package], boots: bool
) -> list[Step]:
    """Load and start now, or leave it to the boot that is due; nothing where all is on."""
    found = []
    if wanted.starts and moved and not boots:
        found.append(_load(wanted))
    for unit in wanted.units:
        role, why = _ROLES[unit]
        starts = wanted.starts and not boots
        # A package that replaces another may bring its unit without turning it on.
        if not moved and _is_on(there.units.get(unit, {}), starts):
            continue
        found.append(
            Step(
                name=f"enable_{role}",
                role=role,
                title=f"enable {unit}" + (" and start it" if starts else ""),
                reason=why,
                variables={
                    f"{role}_unit": unit,
                    f"{role}_state": "started" if starts else "enabled",
                },
            )
        )
    return found


def _is_on(unit: dict[str, str], starts: bool) -> bool:
    active = unit.get("ActiveState") == "active" or not starts
    return unit.get("UnitFileState") in _ON and active


def _load(wanted: DriverSet) -> Step:
    return Step(
        name="load_module",
        role="nvidia_driver",
        title="load the kernel modules",
        reason="no module of the driver is loaded, so that no boot is needed",
        variables=driver_variables("loaded", wanted, (), ()),
    )
