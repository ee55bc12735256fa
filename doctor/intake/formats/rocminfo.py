"""`rocminfo`: the agents of ROCm, of which the GPUs are devices."""

from __future__ import annotations

import re

from doctor.facts import UNSTATED, Device, Facts, seen
from doctor.probes.tool_text import LIMIT, fields, integer, reading

AT = "rocminfo"
_AGENT = re.compile(r"^\*{3,9}[ \t]*\nAgent \d{1,3}[ \t]*$", re.MULTILINE)
_POOL = re.compile(
    r"Segment:[ \t]{1,30}GLOBAL; FLAGS:[^\n]{0,40}\n[ \t]{1,20}Size:[ \t]{1,30}(\d{1,12})\("
)
_GFX = re.compile(r"gfx[0-9a-f]{3,5}")


def looks_like(text: str) -> bool:
    """Tell by the headings of the tool."""
    return "HSA System Attributes" in text or "HSA Agents" in text


def parse(text: str) -> Facts:
    """One device for each agent of type GPU, in order."""
    bodies = [body for body in _AGENT.split(text[: LIMIT * 2], 512)[1:] if "gfx" in body]
    found = [_device(i, body) for i, body in enumerate(b for b in bodies if _is_gpu(b))]
    return Facts(devices=seen(tuple(found), AT) if found else UNSTATED)


def _is_gpu(body: str) -> bool:
    return fields(body[:8192]).get("Device Type") == "GPU"


def _device(number: int, body: str) -> Device:
    told = fields(body[:8192])
    gfx = _GFX.match(told.get("Name", ""))
    pool = _POOL.search(body)
    kib = integer(pool[1]) if pool else None
    chip = told.get("Chip ID", "")
    pci = re.search(r"0x([0-9a-f]{4})", chip)
    return Device(
        id=f"gpu{number}",
        vendor="amd",
        index=number,
        pci_id=reading(f"1002:{pci[1]}" if pci else None, AT),
        name=reading(told.get("Marketing Name") or None, AT),
        gfx=reading(gfx[0] if gfx else None, AT),
        memory_mib=reading(kib >> 10 if kib else None, AT),
    )
