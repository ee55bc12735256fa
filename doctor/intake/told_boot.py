"""Which kernel modules a machine loads, as its owner tells: signed ones alone, open ones."""

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

_OPEN = re.compile(
    r"\b(?:oss|open(?:[- ]source)?|open kernel) (?:nvidia |gpu |kernel ){0,2}"
    r"(?:drivers?|modules?|extension|flavou?r)\b[^.;\n]{0,30}\b(?:chosen|installed|used|loaded|"
    r"default|picked|selected)\b|"
    r"\b(?:chose|installed|used|loads?|picked|selected|ships|with) (?:the )?"
    r"(?:oss|open(?:[- ]source)?) (?:nvidia |gpu |kernel ){0,2}(?:drivers?|modules?|extension)\b",
    re.I,
)
_OTHER_OPEN = re.compile(r"\b(?:nouveau|nvk|amdgpu|mesa|radeon|not)\b", re.I)


def told_flavour(notes: tuple[str, ...]) -> str:
    """The flavour "open" where a note says that NVIDIA's open modules are the ones that load."""
    told = any(_OPEN.search(n) and not _OTHER_OPEN.search(n) for n in notes)
    return "open" if told else ""


def told_secure_boot(system: Stated, notes: tuple[str, ...]) -> Reading[bool]:
    """Whether the kernel loads signed modules alone: the firmware's state, or an option for it."""
    stated = system.flag("secure_boot")
    if stated is not None:
        return seen(stated, "os.secure_boot")
    told = any(map(_SIGNED_ALONE.search, notes))
    return reading(True if told else None, "notes")
