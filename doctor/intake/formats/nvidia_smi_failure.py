"""What nvidia-smi says instead of a table when it cannot reach the driver."""

from __future__ import annotations

import re

from doctor.facts import UNSTATED, Facts, LogText, Missing, NvidiaFacts, missing, seen
from doctor.probes.stated_version import version
from doctor.probes.tool_text import reading

AT = "nvidia-smi"
_REFUSAL = re.compile(r"Failed to initialize NVML: ([^\n]{1,80})")
_NVML_VERSION = re.compile(r"NVML library version: {0,3}([\d.]{3,20})")
_NO_DRIVER = "couldn't communicate with the NVIDIA driver"
_NO_DEVICES = "No devices were found"
_NO_HANDLE = "Unable to determine the device handle for "
_NO_TOOL = ("nvidia-smi: command not found", "nvidia-smi: not found", "'nvidia-smi' not found")
# The same as people tell it.
_TOLD_NONE = re.compile(
    r"\bnvidia-smi\b[^.;,\n]{0,20}\b(?:finds?|found|shows?|lists?|sees?|reports?|prints?|has) "
    r"no (?:nvidia )?(?:devices?|gpus?|cards?)\b",
    re.IGNORECASE,
)
MARKS = (*_NO_TOOL, "Failed to initialize NVML", _NO_DRIVER, _NO_DEVICES, _NO_HANDLE)
# Return codes of NVML by the words that nvmlErrorString has for them (nvml.h).
_CODES = {
    "insufficient permissions": 4,
    "driver not loaded": 9,
    "nvidia driver is not loaded": 9,
    "not found": 12,
    "function not found": 13,
    "gpu is lost": 15,
    "gpu access blocked by the operating system": 17,
    "driver/library version mismatch": 18,
    "unknown error": 999,
}


def looks_like(text: str) -> bool:
    """Tell by the tool's own sentences."""
    return any(mark in text for mark in MARKS) or _TOLD_NONE.search(text) is not None


def parse(text: str) -> Facts:
    """NVML's error, that no driver answers, or that it has no devices; and the words as a log."""
    refusal, library = _REFUSAL.search(text), _NVML_VERSION.search(text)
    code = _CODES.get(refusal[1].strip().rstrip(".").lower()) if refusal else None
    if any(mark in text for mark in _NO_TOOL):
        # The tool comes with the driver; a Jetson or a container may do without.
        return Facts(nvidia=NvidiaFacts(driver=missing(Missing.NOT_THERE, AT)))
    unloaded = _NO_DRIVER in text
    return Facts(
        nvidia=NvidiaFacts(
            driver=missing(Missing.NOT_THERE, AT) if unloaded else UNSTATED,
            # The tool leaves the last number out: 550.144 is any of 550.144.*.
            userspace=reading(version(library[1].rstrip(".")) if library else None, AT),
            nvml_error=reading(9 if unloaded and code is None else code, AT),
            # The bus may still have some.
            nvml_devices=seen(0, AT) if _has_none(text) else UNSTATED,
        ),
        logs=tuple(LogText(line.strip()) for line in text.splitlines() if looks_like(line))[:1],
    )


def _has_none(text: str) -> bool:
    return _NO_DEVICES in text or _TOLD_NONE.search(text) is not None
