"""Whether a machine loads signed kernel modules alone, as its owner tells."""

from __future__ import annotations

import re

from doctor.facts import Reading, seen
from doctor.intake.stated import Stated
from doctor.probes.tool_text import reading

_SIGNED_ALONE = re.compile(
    r"\bsecure ?boot\b(?: (?:is|was|has been|state))?:? (?:on|enabled|active|turned on)\b|"
    r"\bSecureBoot enabled\b|\bmodule\.sig_enforce(?:=1|=y)?\b|\blockdown=(?:integrity|conf)",
    re.I,
)


def told_secure_boot(system: Stated, notes: tuple[str, ...]) -> Reading[bool]:
    """Whether the kernel loads signed modules alone: the firmware's state, or an option for it."""
    stated = system.flag("secure_boot")
    if stated is not None:
        return seen(stated, "os.secure_boot")
    told = any(map(_SIGNED_ALONE.search, notes))
    return reading(True if told else None, "notes")
