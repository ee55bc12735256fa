"""Steps after the packages: load the modules where there are cards, start services. Pure."""

from __future__ import annotations

import json
from collections.abc import Sequence

from doctor.provision.driver.sets import DriverSet, DriverState, Package
from doctor.provision.driver.telling import driver_variables
from doctor.provision.step import Step

_DOCKER = "docker"
_ON = frozenset({"enabled", "enabled-runtime", "static", "alias", "indirect"})
_ROLES = {
    "nvidia-persistenced.service": ("persistence", "keeps the GPUs initialised"),
    "nvidia-fabricmanager.service": ("fabric_manager", "NVSwitch needs it before any CUDA call"),
    "nvidia-dcgm.service": ("dcgm", "tells how the GPUs are"),
}


def service_steps(
    wanted: DriverSet, there: DriverState, moved: Sequence[Package], boots: bool
) -> list[Step]:
    """Load and start now, or leave it to the boot that is due; nothing where all is on."""
    found: list[Step] = []
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


def container_steps(wanted: DriverSet, daemon: str | None, moved: Sequence[Package]) -> list[Step]:
    """Tell Docker of the runtime, if its configuration `daemon` does not; others need CDI alone."""
    if wanted.engine != _DOCKER or (has_runtime(daemon) and not moved):
        return []
    return [
        Step(
            name="configure_containers",
            role="nvidia_container_toolkit",
            title="merge the nvidia runtime into Docker's configuration",
            reason="Docker does not know the runtime that hands GPUs to containers"
            if not has_runtime(daemon)
            else "the description of devices names files of the driver before",
            risk="Docker is started again where its configuration changes, and with it containers "
            "that do not restart by themselves end",
            variables={"nvidia_container_toolkit_engine": wanted.engine},
        )
    ]


def has_runtime(daemon: str | None) -> bool:
    """Tell whether a daemon.json names NVIDIA's runtime."""
    try:
        found = json.loads(daemon or "{}")
        return "nvidia" in found.get("runtimes", {})
    except (ValueError, AttributeError, TypeError, RecursionError):
        return False
