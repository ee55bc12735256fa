"""/proc/cmdline: what the kernel was told of the IOMMU and of modules."""

from __future__ import annotations

import re

from doctor.facts import Facts, HostFacts
from doctor.probes.tool_text import reading

AT = "/proc/cmdline"
_LINE = re.compile(r"^(?:BOOT_IMAGE=|initrd=)[^\n]{1,2000}$", re.MULTILINE)
MARKS = ("BOOT_IMAGE=", "initrd=")
_MODES = (
    ("passthrough", re.compile(r"\biommu(?:\.passthrough)?=(?:pt|1)\b")),
    ("off", re.compile(r"\b(?:intel_|amd_)?iommu=off\b")),
    ("translated", re.compile(r"\b(?:intel_|amd_)?iommu=(?:on|force)\b")),
)


def looks_like(text: str) -> bool:
    """Tell by how a boot loader begins the line."""
    return _LINE.search(text) is not None


def parse(text: str) -> Facts:
    """The IOMMU's mode, where the line names one."""
    line = _LINE.search(text)
    told = line[0] if line else ""
    mode = next((mode for mode, words in _MODES if words.search(told)), None)
    return Facts(host=HostFacts(iommu=reading(mode, AT)))
