"""Resource limits: those that a program started from here would inherit, or an engine's own."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Optional, Union

from doctor.facts import HostFacts, Limits, Missing, Reading, missing, seen
from doctor.probes.files import relay
from doctor.probes.host import Host

_OWN = "self"
_UNLIMITED = -1
_LINE = re.compile(r"^Max ([a-z ]+?)\s{2,}(\d{1,20}|unlimited)\s", re.MULTILINE)


def read(host: Host, facts: HostFacts) -> HostFacts:
    """Fill the limits of open files and of locked memory."""
    return replace(facts, limits=of_process(host, _OWN))


def of_process(host: Host, pid: Union[int, str]) -> Limits:
    """The limits under which a process runs."""
    text = host.read_text(f"/proc/{pid}/limits")
    if text.value is None:
        return Limits(relay(text), relay(text))
    return parse_limits(text.value, text.at)


def parse_limits(text: str, at: str = "") -> Limits:
    """Read the soft limits of /proc/PID/limits."""
    stated = dict(_LINE.findall(text))
    files, memory = _number(stated.get("open files")), _number(stated.get("locked memory"))
    if memory is not None and memory != _UNLIMITED:
        memory >>= 10
    return Limits(_reading(files, at), _reading(memory, at))


def _number(text: Optional[str]) -> Optional[int]:
    if text is None:
        return None
    return _UNLIMITED if text == "unlimited" else int(text)


def _reading(value: Optional[int], at: str) -> Reading[int]:
    return missing(Missing.NOT_READABLE, at) if value is None else seen(value, at)
