"""`docker info`, as text or JSON, and `docker version`: the engine and the host it runs on."""

from __future__ import annotations

import json
import re
from typing import Any

from doctor.facts import UNSTATED, ContainerEngine, Facts, HostFacts, Reading, Version, seen
from doctor.intake.devices import memory_of
from doctor.intake.names import machine_name, os_release, platform_of_kernel
from doctor.probes.tool_text import LIMIT, fields, reading

AT = "docker info"
_ROOTLESS = re.compile(r"^ {1,4}(?:name=)?rootless\b", re.MULTILINE)
_CDI = re.compile(r"^ {1,4}cdi: (\S{1,120})$", re.MULTILINE)
_ENGINE = re.compile(
    r"^Server:[^\n]{0,80}\n Engine:\n {2}Version: {1,30}(\d[\w.+~-]{0,40})", re.MULTILINE
)


_RUNTIMES = re.compile(r"^ ?Runtimes: (?=[^\n]{0,200}\brunc\b)[\w. -]{3,200}$", re.MULTILINE)


def looks_like(text: str) -> bool:
    """Tell by fields that only the daemon has; the row of its runtimes is enough."""
    return (
        _RUNTIMES.search(text) is not None
        or ("Server Version:" in text and "Cgroup Driver:" in text)
        or ('"ServerVersion"' in text and '"CgroupDriver"' in text)
        or _ENGINE.search(text) is not None
    )


def parse(text: str) -> Facts:
    """The engine, its runtimes and context; system and memory of its host."""
    if '"ServerVersion"' in text:
        told = _json(text)
    elif "Server Version:" in text or _RUNTIMES.search(text):
        told = _text(text)
    else:
        match = _ENGINE.search(text)
        told = {"ServerVersion": match[1] if match else ""}
    return Facts(host=_host(told), container_engine=seen(_engine(told), AT))


def _json(text: str) -> dict[str, Any]:
    start, end = text.find("{"), text.rfind("}")
    try:
        told = json.loads(text[start : min(end, start + LIMIT) + 1])
    except (ValueError, RecursionError):
        return {}
    return told if isinstance(told, dict) else {}


def _text(text: str) -> dict[str, Any]:
    """The fields of the text form under the names of the JSON form."""
    told = fields(text)
    names = told.get("Runtimes", "").split()
    return {
        "ServerVersion": told.get("Server Version"),
        "Runtimes": dict.fromkeys(names),
        "DefaultRuntime": told.get("Default Runtime"),
        "CgroupDriver": told.get("Cgroup Driver"),
        "SecurityOptions": ["name=rootless"] if _ROOTLESS.search(text) else [],
        "ClientInfo": {"Context": told.get("Context")},
        "OperatingSystem": told.get("Operating System"),
        "KernelVersion": told.get("Kernel Version"),
        "Architecture": told.get("Architecture"),
        "MemTotal": told.get("Total Memory"),
        "DiscoveredDevices": [{"Source": "cdi", "ID": name} for name in _CDI.findall(text)],
    }


def _engine(told: dict[str, Any]) -> ContainerEngine:
    client, security = told.get("ClientInfo"), told.get("SecurityOptions")
    runtimes = told.get("Runtimes")
    cdi = [d.get("ID") for d in _rows(told.get("DiscoveredDevices")) if d.get("Source") == "cdi"]
    return ContainerEngine(
        name="docker",
        version=reading(Version.maybe(_word(told.get("ServerVersion"))), AT),
        runtimes=reading(
            tuple(sorted(map(str, runtimes))) if isinstance(runtimes, dict) else None, AT
        ),
        default_runtime=_stated(told.get("DefaultRuntime")),
        context=_stated(client.get("Context") if isinstance(client, dict) else None),
        rootless=seen(any("rootless" in str(o) for o in security), AT)
        if isinstance(security, list)
        else UNSTATED,
        cgroup_driver=_stated(told.get("CgroupDriver")),
        cdi=seen(tuple(str(name) for name in cdi), AT) if cdi else UNSTATED,
    )


def _rows(value: Any) -> list[dict[str, Any]]:
    return [row for row in value if isinstance(row, dict)] if isinstance(value, list) else []


def _word(value: Any) -> str:
    return str(value).strip() if isinstance(value, (str, int)) else ""


def _stated(value: Any) -> Reading[str]:
    return reading(_word(value) or None, AT)


def _host(told: dict[str, Any]) -> HostFacts:
    """The daemon runs on the host itself, or in the virtual machine of Docker Desktop."""
    kernel, memory = _word(told.get("KernelVersion")), _word(told.get("MemTotal"))
    mib = int(memory[:18]) >> 20 if memory.isdecimal() else memory_of(memory)
    system = _word(told.get("OperatingSystem"))
    desktop = system.startswith("Docker Desktop")
    return HostFacts(
        os=reading(os_release(system, "") if not desktop else None, AT),
        kernel=reading(kernel or None, AT),
        arch=reading(machine_name(_word(told.get("Architecture"))) or None, AT),
        platform=reading("vm" if desktop else platform_of_kernel(kernel), AT),
        memory_mib=reading(mib, AT),
    )
