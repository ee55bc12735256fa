"""Version files of the Ascend driver, firmware and toolkit, in their old and new layouts."""

from __future__ import annotations

import re
from itertools import islice
from typing import Optional

from doctor.facts import AscendFacts, Facts, Version
from doctor.probes.stated_version import version
from doctor.probes.tool_text import reading

_LINE = re.compile(r"^[ \t]{0,8}([A-Za-z_]{3,60})[ \t]?=[ \t]?([^\n]{0,300})$", re.MULTILINE)
_RUNNING = re.compile(r"\[([^:\]\n]{1,60}):([^\]\n]{1,60})\]")
# A key that only this file has.
MARKS = (
    "ascendhal_version=",
    "firmware_version=",
    "_running_version=[",
    "package_name=Ascend",
    "Driver_Install_Status=",
)


def looks_like(text: str) -> bool:
    """Tell by a key that only one of these files has."""
    return any(key in text for key in MARKS)


def parse(text: str) -> Facts:
    """The version that the file is about."""
    told = stated(text)
    package = told.get("package_name", "").lower()
    driver = firmware = cann = nnal = fits = None
    if "ascendhal_version" in told:
        driver, fits = driver_version(told), told.get("compatible_version_fw")
    elif "firmware_version" in told:
        firmware = firmware_version(told)
    elif "nnal" in package:
        nnal = _version(told, "version")
    else:
        cann = cann_version(text)
    installed = told.get("driver_install_status")
    return Facts(
        notes=(f"Ascend driver installation: {installed}",) if installed else (),
        ascend=AscendFacts(
            driver=reading(driver, "driver/version.info"),
            firmware=reading(firmware, "firmware/version.info"),
            firmware_range=reading(fits or None, "driver/version.info"),
            cann=reading(cann, "CANN version file"),
            nnal=reading(nnal, "nnal version file"),
        ),
    )


def stated(text: str) -> dict[str, str]:
    """The `key=value` lines, keys in lower case."""
    return {key.lower(): value.strip() for key, value in islice(_LINE.findall(text), 2000)}


def driver_version(told: dict[str, str]) -> Optional[Version]:
    """The driver's package version; `Version` may be that of a component."""
    return _version(told, "package_version", "version")


def firmware_version(told: dict[str, str]) -> Optional[Version]:
    """The firmware's own version, which the driver's file gives ranges of."""
    return _version(told, "version")


def cann_version(text: str) -> Optional[Version]:
    """The release that an install.info, a version.info or a version.cfg of CANN names."""
    told = stated(text)
    if told.get("package_name", "").lower().startswith("ascend"):
        return _version(told, "version")
    if told.get("version_dir"):
        return _version(told, "version_dir")
    # The release stands after the colon of "[7.6.0.1.220:8.0.0]".
    match = _RUNNING.search(text)
    return version(match[2], width=1) if match else None


def _version(told: dict[str, str], *keys: str) -> Optional[Version]:
    texts = (told[key] for key in keys if told.get(key))
    return version(next(texts, ""), width=1)
