"""/etc/os-release and `lsb_release -a`: the distribution."""

from __future__ import annotations

import re

from doctor.facts import Facts, HostFacts
from doctor.intake.names import os_release
from doctor.probes.system import parse_os_release
from doctor.probes.tool_text import LIMIT, reading

AT = "/etc/os-release"
_ID = re.compile(r"^ID=", re.MULTILINE)
_LSB = re.compile(r"^Distributor ID:[ \t]{1,20}(\S[^\n]{0,60})$", re.MULTILINE)
_RELEASE = re.compile(r"^Release:[ \t]{1,20}(\S{1,40})", re.MULTILINE)


def looks_like(text: str) -> bool:
    """Tell by the lines that name the distribution."""
    return (_ID.search(text) is not None and "NAME=" in text) or "Distributor ID:" in text


def parse(text: str) -> Facts:
    """The distribution."""
    if _ID.search(text) and "NAME=" in text:
        found = parse_os_release(text[:LIMIT], AT)
        return Facts(host=HostFacts(os=found)) if found.is_known else Facts()
    name, release = _LSB.search(text), _RELEASE.search(text)
    known = os_release(name[1].strip() if name else "", release[1] if release else "")
    return Facts(host=HostFacts(os=reading(known, "lsb_release -a")))
