"""`ulimit -a`: the limits of what a shell starts."""

from __future__ import annotations

import re

from doctor.facts import Facts, HostFacts, Limits, Reading
from doctor.probes.tool_text import reading

AT = "ulimit -a"
_FILES = re.compile(r"^open files[^\n(]{0,40}\([^\n)]{0,20}-n\) (\d{1,18}|unlimited)", re.MULTILINE)
_LOCKED = re.compile(
    r"^max locked memory[^\n(]{0,40}\(kbytes, -l\) (\d{1,18}|unlimited)", re.MULTILINE
)
_UNLIMITED = -1
MARKS = ("open files", "max locked memory")


def looks_like(text: str) -> bool:
    """Tell by one of its two rows."""
    return _FILES.search(text) is not None or _LOCKED.search(text) is not None


def parse(text: str) -> Facts:
    """Limits of open files and of locked memory."""
    return Facts(host=HostFacts(limits=Limits(_limit(_FILES, text), _limit(_LOCKED, text))))


def _limit(pattern: re.Pattern[str], text: str) -> Reading[int]:
    match = pattern.search(text)
    if match is None:
        return reading(None, AT)
    return reading(_UNLIMITED if match[1] == "unlimited" else int(match[1]), AT)
