"""`lscpu`, and the flags of /proc/cpuinfo: processor, architecture, instruction set, hypervisor."""

from __future__ import annotations

import re

from doctor.facts import UNSTATED, Cpu, Facts, HostFacts, seen
from doctor.intake.names import machine_name
from doctor.probes.tool_text import fields, integer, reading

AT = "lscpu"
_FLAGS = re.compile(r"^(?:flags|Features)[ \t]{0,8}: ([a-z0-9_ ]{20,8000})$", re.MULTILINE)
MARKS = ("Architecture:", "flags\t", "flags :", "Features\t")


def looks_like(text: str) -> bool:
    """Tell by the first field, together with one that only lscpu has, or by a row of flags."""
    listed = "Architecture:" in text and ("CPU op-mode(s):" in text or "CPU(s):" in text)
    return listed or _FLAGS.search(text) is not None


def parse(text: str) -> Facts:
    """The processor as this host sees it; WSL shows as a hypervisor."""
    row = None if "Architecture:" in text else _FLAGS.search(text)
    if row is not None:
        return Facts(host=HostFacts(cpu=Cpu(flags=seen(tuple(row[1].split()), "/proc/cpuinfo"))))
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
