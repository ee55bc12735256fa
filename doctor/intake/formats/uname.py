"""`uname -a`: kernel and architecture."""

from __future__ import annotations

import re

from doctor.facts import Facts, HostFacts, seen
from doctor.intake.names import machine_name, platform_of_kernel
from doctor.probes.tool_text import reading

AT = "uname -a"
_LINE = re.compile(
    r"^Linux \S{1,80} (\d{1,3}\.\d{1,3}\S{0,80}) #[^\n]{1,160}?"
    r" (x86_64|amd64|aarch64|arm64|ppc64le|riscv64|s390x)\b",
    re.MULTILINE,
)


def looks_like(text: str) -> bool:
    """Tell by the line's form."""
    return "Linux " in text and _LINE.search(text) is not None


def parse(text: str) -> Facts:
    """Kernel release, architecture, and WSL or Jetson by the kernel's name."""
    match = _LINE.search(text)
    if match is None:
        return Facts()
    return Facts(
        host=HostFacts(
            kernel=seen(match[1], AT),
            arch=seen(machine_name(match[2]), AT),
            platform=reading(platform_of_kernel(match[1]), AT),
        )
    )
