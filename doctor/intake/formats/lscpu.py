"""`lscpu`: processor, architecture, instruction set, hypervisor."""

from __future__ import annotations

from doctor.facts import UNSTATED, Cpu, Facts, HostFacts, seen
from doctor.intake.names import machine_name
from doctor.probes.tool_text import fields, integer, reading

AT = "lscpu"


def looks_like(text: str) -> bool:
    """Tell by the first field, together with one that only lscpu has."""
    return "Architecture:" in text and ("CPU op-mode(s):" in text or "CPU(s):" in text)


def parse(text: str) -> Facts:
    """The processor as this host sees it; WSL shows as a hypervisor."""
    told = fields(text[text.find("Architecture:") :])
    flags = tuple((told.get("Flags") or told.get("Features") or "").split())
    hypervisor = told.get("Hypervisor vendor", "")
    platform = "wsl2" if "Windows Subsystem" in hypervisor else "vm" if hypervisor else None
    host = HostFacts(
        arch=reading(machine_name(told.get("Architecture", "")) or None, AT),
        platform=reading(platform, AT),
        cpu=Cpu(
            model=reading(told.get("Model name") or None, AT),
            flags=seen(flags, AT) if flags else UNSTATED,
            count=reading(integer(told.get("CPU(s)")), AT),
        ),
    )
    return Facts(host=host)
