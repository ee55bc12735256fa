"""CDI specifications: which devices containers can ask for, and the driver they were made for."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Optional

from doctor.facts import Reading, Version, missing, seen
from doctor.facts.reading import Missing
from doctor.probes.files import relay
from doctor.probes.host import Host

FOLDERS = ("/etc/cdi", "/var/run/cdi")
_KIND = re.compile(r"""^kind:\s*["']?([\w.-]+/[\w.-]+)""", re.MULTILINE)
# Entries of the top-level list `devices`: its items begin at the margin or two columns in.
_NAME = re.compile(r"""^(?:- |  - |  )name:\s*["']?([\w.:-]+)["']?\s*$""", re.MULTILINE)
_DRIVER = re.compile(r"lib(?:cuda|nvidia-ml)\.so\.(\d{3,4}(?:\.\d{1,4}){1,3})")
_LIMIT = 2 << 20


@dataclass(frozen=True)
class CdiSpec:
    """One specification: its devices ("nvidia.com/gpu=0") and the driver that it mounts."""

    devices: tuple[str, ...] = ()
    driver: Optional[Version] = None


def read(host: Host) -> tuple[Reading[tuple[str, ...]], Reading[Version]]:
    """Devices of all NVIDIA specifications, and the driver version that they mount."""
    devices: list[str] = []
    driver: Optional[Version] = None
    place = FOLDERS[0]
    for folder in FOLDERS:
        names = host.list_dir(folder)
        if names.value is None and not names.is_absent:
            return relay(names), relay(names)
        for name in names.value or ():
            if not name.endswith((".yaml", ".yml", ".json")):
                continue
            text = host.read_text(f"{folder}/{name}", _LIMIT)
            if text.value is None:
                return relay(text), relay(text)
            spec = parse_spec(text.value)
            devices += spec.devices
            if spec.driver is not None:
                driver, place = spec.driver, text.at
    absent = missing(Missing.NOT_THERE, ", ".join(FOLDERS))
    return (
        seen(tuple(dict.fromkeys(devices)), place) if devices else absent,
        seen(driver, place) if driver else absent,
    )


def parse_spec(text: str) -> CdiSpec:
    """Read a specification in YAML as the generators write it, or in JSON."""
    driver = _DRIVER.search(text)
    version = Version.maybe(driver[1]) if driver else None
    if text.lstrip().startswith("{"):
        return CdiSpec(_from_json(text), version)
    kind = _KIND.search(text)
    if kind is None:
        return CdiSpec((), version)
    return CdiSpec(tuple(f"{kind[1]}={name}" for name in _NAME.findall(text)), version)


def _from_json(text: str) -> tuple[str, ...]:
    try:
        spec = json.loads(text)
    except (ValueError, RecursionError):
        return ()
    if not isinstance(spec, dict) or not isinstance(spec.get("devices"), list):
        return ()
    named = [item.get("name") for item in spec["devices"] if isinstance(item, dict)]
    return tuple(f"{spec.get('kind')}={name}" for name in named if isinstance(name, str))
