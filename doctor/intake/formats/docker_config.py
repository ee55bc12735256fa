"""`docker context ls`, and /etc/docker/daemon.json: which daemon is asked, with which runtimes."""

from __future__ import annotations

import json
import re
from typing import Any

from doctor.facts import UNSTATED, ContainerEngine, Facts, Reading, seen
from doctor.probes.tool_text import reading

_CONTEXTS = re.compile(
    r"^NAME[ \t]{1,60}(?:TYPE[ \t]{1,60})?DESCRIPTION[ \t]{1,80}DOCKER ENDPOINT", re.M
)
_CURRENT = re.compile(r"^([\w.-]{1,60}) ?\*[ \t]", re.MULTILINE)
_DAEMON = re.compile(
    r'"(?:runtimes|default-runtime|exec-opts|data-root|insecure-registries)"[ \t]*:'
)
MARKS = ("DOCKER ENDPOINT", '"runtimes"', '"default-runtime"', '"exec-opts"', "daemon.json")
_LONGEST = 64 << 10


def looks_like(text: str) -> bool:
    """Tell by the heading of the list, or by keys that only the daemon's file has."""
    return _CONTEXTS.search(text) is not None or _file(text) is not None


def parse(text: str) -> Facts:
    """The context in use; runtimes and default of the daemon."""
    told = _file(text)
    current = _CURRENT.search(text) if _CONTEXTS.search(text) else None
    if told is None and current is None:
        return Facts()
    options = told.get("exec-opts") if told else None
    driver = next((o for o in options or () if "native.cgroupdriver=" in str(o)), "")
    engine = ContainerEngine(
        name="docker",
        runtimes=_runtimes(told),
        default_runtime=reading(str((told or {}).get("default-runtime") or "") or None, AT),
        context=reading(current[1] if current else None, "docker context ls"),
        cgroup_driver=reading(str(driver).partition("=")[2] or None, AT),
    )
    return Facts(container_engine=seen(engine, AT))


AT = "/etc/docker/daemon.json"


def _runtimes(told: dict[str, Any] | None) -> Reading[tuple[str, ...]]:
    """What the file adds to runc, which is always there."""
    if told is None:
        return UNSTATED
    named = told.get("runtimes")
    return seen(tuple(sorted({"runc", *map(str, named if isinstance(named, dict) else ())})), AT)


def _file(text: str) -> dict[str, Any] | None:
    """The table of daemon.json that stands in the text."""
    if _DAEMON.search(text) is None:
        return None
    start, end = text.find("{"), text.rfind("}")
    try:
        told = json.loads(text[start : min(end, start + _LONGEST) + 1])
    except (ValueError, RecursionError):
        return None
    is_daemon = isinstance(told, dict) and any(_DAEMON.match(f'"{key}":') for key in told)
    return told if is_daemon else None
