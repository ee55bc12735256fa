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
# `ulimit -n` and `ulimit -l` after a prompt, with the answer below.
_ASKED_FILES = re.compile(r"\bulimit -n[ \t]*\n(\d{1,18}|unlimited)[ \t]*$", re.MULTILINE)
_ASKED_LOCKED = re.compile(r"\bulimit -l[ \t]*\n(\d{1,18}|unlimited)[ \t]*$", re.MULTILINE)
_UNLIMITED = -1
MARKS = ("open files", "max locked memory", "ulimit -")


def looks_like(text: str) -> bool:
    """Tell by one of its two rows, or by the answer to one of them."""
    patterns = (_FILES, _LOCKED, _ASKED_FILES, _ASKED_LOCKED)
    return any(pattern.search(text) is not None for pattern in patterns)


def parse(text: str) -> Facts:
    """Limits of open files and of locked memory."""
    files = _limit((_FILES, _ASKED_FILES), text)
    return Facts(host=HostFacts(limits=Limits(files, _limit((_LOCKED, _ASKED_LOCKED), text))))


def _limit(patterns: tuple[re.Pattern[str], ...], text: str) -> Reading[int]:
    match = next(filter(None, (pattern.search(text) for pattern in patterns)), None)
    if match is None:
        return reading(None, AT)
    return reading(_UNLIMITED if match[1] == "unlimited" else int(match[1]), AT)
