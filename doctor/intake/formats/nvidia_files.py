"""/proc/driver/nvidia/version, and what NVIDIA's container tools and services say."""

from __future__ import annotations

import re

from doctor.facts import FabricManager, Facts, Missing, NvidiaFacts, Version, missing, seen
from doctor.probes import nvidia_driver
from doctor.probes.tool_text import reading

_PROC = "/proc/driver/nvidia/version"
_NVRM = re.compile(r"^NVRM version: ?NVIDIA UNIX [^\n]{1,200}$", re.MULTILINE)
_TOOLKIT = re.compile(
    r"NVIDIA Container Toolkit CLI version (\d[\w.~-]{1,40})|^cli-version: (\d[\w.~-]{1,40})"
    r"|NVIDIA Container Runtime(?: Hook)? version (\d[\w.~-]{1,40})",
    re.MULTILINE,
)
_FABRIC = re.compile(
    r"nvidia-fabricmanager\.service[^\n]{0,200}\n(?:[^\n]{0,300}\n){0,3}?"
    r"[ \t]{1,12}Active: (\w{1,20})"
)
_FABRIC_VERSION = re.compile(r"Fabric Manager version is ?: ?(\d[\d.]{1,20})")
_NO_FABRIC = re.compile(
    r"^Unit nvidia-fabricmanager(?:\.service)? could not be found", re.MULTILINE
)
MARKS = (
    "nvidia-fabricmanager",
    "NVRM version:",
    "NVIDIA Container ",
    "cli-version: ",
    "nvidia-fabricmanager.service",
    "Fabric Manager version is",
)


def looks_like(text: str) -> bool:
    """Tell by the first words of each."""
    return (
        "NVRM version:" in text
        or _TOOLKIT.search(text) is not None
        or "nvidia-fabricmanager.service" in text
        or _FABRIC_VERSION.search(text) is not None
        or _NO_FABRIC.search(text) is not None
    )


def parse(text: str) -> Facts:
    """The loaded module, the container toolkit, the fabric manager."""
    line, tool = _NVRM.search(text), _TOOLKIT.search(text)
    active, fabric = _FABRIC.search(text), _FABRIC_VERSION.search(text)
    loaded = seen(line[0], _PROC) if line else None
    toolkit = next((group for group in tool.groups() if group), "") if tool else ""
    return Facts(
        nvidia=NvidiaFacts(
            driver=nvidia_driver.parse_version(loaded) if loaded else reading(None, _PROC),
            module_flavour=nvidia_driver.parse_flavour(loaded) if loaded else reading(None, _PROC),
            container_toolkit=reading(Version.maybe(toolkit.rstrip(".")), "nvidia-ctk --version"),
            fabric_manager=FabricManager(
                version=missing(Missing.NOT_THERE, "systemctl status")
                if _NO_FABRIC.search(text)
                else reading(
                    Version.maybe(fabric[1].rstrip(".")) if fabric else None, "fabricmanager"
                ),
                active=reading(active[1] == "active" if active else None, "systemctl status"),
            ),
        )
    )
