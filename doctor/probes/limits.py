"""Resource limits that a program started from here would inherit."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Optional

from doctor.facts import HostFacts, Limits, Missing, Reading, missing, seen
from doctor.probes.files import relay
from doctor.probes.host import Host

_LIMITS = "/proc/self/limits"
_UNLIMITED = -1
_LINE = re.compile(r"^Max ([a-z ]+?)\s{2,}(\d{1,20}|unlimited)\s", re.MULTILINE)


def read(host: Host, facts: HostFacts) -> HostFacts:
    """Fill the limits of open files and of locked memory."""
    text = host.read_text(_LIMITS)
    if text.value is None:
        return replace(facts, limits=Limits(relay(text), relay(text)))
    return replace(facts, limits=parse_limits(text.value))


def parse_limits(text: str) -> Limits:
    """Read the soft limits of /proc/PID/limits."""
    stated = dict(_LINE.findall(text))
    files, memory = _number(stated.get("open files")), _number(stated.get("locked memory"))
    if memory is not None and memory != _UNLIMITED:
        memory >>= 10
    return Limits(_reading(files), _reading(memory))


def _number(text: Optional[str]) -> Optional[int]:
    if text is None:
        return None
    return _UNLIMITED if text == "unlimited" else int(text)


def _reading(value: Optional[int]) -> Reading[int]:
    return missing(Missing.NOT_READABLE, _LIMITS) if value is None else seen(value, _LIMITS)
