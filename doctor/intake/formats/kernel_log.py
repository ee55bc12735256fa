"""`dmesg`: what the NVIDIA module wrote to the kernel's log."""

from __future__ import annotations

from doctor.facts import UNSTATED, Facts, LogText, NvidiaFacts, seen
from doctor.probes.nvidia_kernel_log import parse_log
from doctor.probes.tool_text import LIMIT

AT = "dmesg"


def looks_like(text: str) -> bool:
    """Tell by the module's own mark."""
    return "NVRM: " in text


def parse(text: str) -> Facts:
    """Xid events and telling lines; the text stays a log for the signatures too."""
    start = max(text.find("NVRM: ") - LIMIT // 2, 0)
    events, telling = parse_log(text[start : start + LIMIT])
    return Facts(
        nvidia=NvidiaFacts(
            xid=seen(events, AT, partial=True) if events else UNSTATED,
            kernel_messages=seen(telling, AT, partial=True) if telling else UNSTATED,
        ),
        logs=(LogText(text),),
    )
