"""What hostnamectl, neofetch, fastfetch and the systeminfo of Windows say of a system."""

from __future__ import annotations

import re
from itertools import islice

from doctor.facts import UNSTATED, Cpu, Device, Facts, HostFacts, Reading, seen
from doctor.intake.card_names import vendor_of
from doctor.intake.cpu_names import full_name
from doctor.intake.devices import memory_of
from doctor.intake.names import machine_name, os_release, platform_of_kernel
from doctor.probes.tool_text import LIMIT, reading

AT = "system summary"
# A picture may stand before the rows of neofetch and its like.
_ROW = re.compile(
    r"(?:^|[ \t])(Operating System|OS Name|OS|Kernel|Architecture|CPU|GPU(?: \d)?|Memory): {1,20}"
    r"(\S[^\n]{0,120}?)[ \t]*$",
    re.MULTILINE,
)
_MACHINE = re.compile(r"\b(x86[_-]64|amd64|aarch64|arm64)\b")
_MEMORY = re.compile(r"/ {0,2}(\d[\d.]{0,10} {0,2}[KMGT]i?B)")
# Beside a card that serves models, what the processor brings says nothing.
_CARD = re.compile(
    r"nvidia|geforce|quadro|tesla|\brtx\b|\bgtx\b|instinct|radeon (?:rx|pro|vii)", re.I
)
_MAKER = re.compile(
    r"(?:NVIDIA Corporation|AMD(?: ATI|/ATI)?|Advanced Micro Devices, Inc\.) ?", re.I
)
MARKS = ("Operating System: ", "OS: ", "OS Name: ")


def looks_like(text: str) -> bool:
    """Tell by a row for the system together with one for its kernel, or by Windows' own words."""
    keys = {row[1] for row in islice(_ROW.finditer(text), 40)}
    return ("Kernel" in keys and not keys.isdisjoint(("OS", "Operating System"))) or (
        "OS Name" in keys and "Windows" in text
    )


def parse(text: str) -> Facts:
    """System, kernel, architecture, processor, memory and cards."""
    rows = [(row[1], row[2]) for row in islice(_ROW.finditer(text[:LIMIT]), 64)]
    told = dict(reversed(rows))
    system = told.get("Operating System") or told.get("OS Name") or told.get("OS", "")
    kernel = told.get("Kernel", "").removeprefix("Linux ").strip()
    machine = _MACHINE.search(told.get("Architecture", "") or system)
    plain = _MACHINE.sub("", system).strip()
    memory = _MEMORY.search(told.get("Memory", ""))
    return Facts(
        host=HostFacts(
            os=reading(os_release(plain, ""), AT),
            kernel=reading(kernel or None, AT),
            arch=reading(machine_name(machine[1].replace("-", "_")) if machine else None, AT),
            platform=reading(platform_of_kernel(kernel), AT),
            memory_mib=reading(memory_of(memory[1]) if memory else None, AT),
            cpu=Cpu(model=reading(_processor(told.get("CPU", "")), AT)),
        ),
        devices=_devices([value for key, value in rows if key.startswith("GPU")]),
    )


def _processor(text: str) -> str | None:
    """The name, without the number of its threads and its clock."""
    return full_name(re.sub(r" ?\(\d{1,4}\)(?: @.*)?$| @.*$", "", text)) or None


def _devices(names: list[str]) -> Reading[tuple[Device, ...]]:
    plain = [
        re.sub(r" @ .*| \[\w+\]$", "", _MAKER.sub("", name)) for name in names if _CARD.search(name)
    ]
    found = tuple(
        Device(id=f"gpu{number}", vendor=vendor_of(name), index=number, name=seen(name, AT))
        for number, name in enumerate(plain)
    )
    return seen(found, AT, partial=True) if found else UNSTATED
