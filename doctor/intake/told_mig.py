"""GPUs in MIG mode of which somebody tells that they have no instance."""

from __future__ import annotations

import re
from dataclasses import replace

from doctor.facts import Device, seen
from doctor.facts.accelerators import Mig

_INSTANCE = r"(?:(?:mig|gpu|compute) ){0,2}(?:instances?|devices?|partitions?|slices?)"
_NONE = re.compile(
    r"\bno (?:mig )?(?:gpu |compute )?(?:instances?|partitions?|slices?)\b|"
    rf"\bno (?:mig|gi|ci) (?:gpu |compute )?(?:instances?|devices?|partitions?|slices?)\b|"
    rf"\bwithout (?:any |an? )?{_INSTANCE}\b|"
    r"\bmig[- ](?:instances?|devices?|partitions?|slices?)\b[^.;\n]{0,20}"
    r"\b(?:not (?:yet )?(?:been )?(?:created|made|configured|there)|none|never created|missing)\b",
    re.IGNORECASE,
)
_ON = re.compile(
    r"\bin mig mode\b|\bmig(?: mode)?\b[^.;\n]{0,12}\b(?:on|enabled|active|turned on)\b|"
    r"\b(?:enabled|turned on) mig\b|-mig 1\b",
    re.IGNORECASE,
)
_ONE_OF = re.compile(r"\b(?:one|another|the other|the second|the last)\b", re.IGNORECASE)


def with_told_instances(devices: list[Device], texts: tuple[str, ...]) -> list[Device]:
    """The devices with no instance, of all or, where somebody says so, of the last."""
    told = next((text for text in texts if _NONE.search(text)), "")
    known = [d for d in devices if d.mig.value and d.mig.value.enabled]
    if not told or not (known or any(map(_ON.search, texts))):
        return devices
    first = len(devices) - 1 if _ONE_OF.search(told) else 0
    none, some = (seen(Mig(enabled=True, instances=n), "notes") for n in (0, 1))
    return [replace(d, mig=none if i >= first else some) for i, d in enumerate(devices)]
