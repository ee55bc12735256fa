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
    stated = {key.lower(): value.strip() for key, value in islice(_LINE.findall(text), 2000)}
    package = stated.get("package_name", "").lower()
    driver = firmware = cann = nnal = None
    if "ascendhal_version" in stated:
        driver = _version(stated, "package_version", "version")
    elif "firmware_version" in stated:
        firmware = _version(stated, "version")
    elif "nnal" in package:
        nnal = _version(stated, "version")
    elif package.startswith("ascend"):
        cann = _version(stated, "version")
    else:
        cann = _running(text)
    installed = stated.get("driver_install_status")
    return Facts(
        notes=(f"Ascend driver installation: {installed}",) if installed else (),
        ascend=AscendFacts(
            driver=reading(driver, "driver/version.info"),
            firmware=reading(firmware, "firmware/version.info"),
            cann=reading(cann, "CANN version file"),
            nnal=reading(nnal, "nnal version file"),
        ),
    )


def _version(stated: dict[str, str], *keys: str) -> Optional[Version]:
    texts = (stated[key] for key in keys if stated.get(key))
    return version(next(texts, ""), width=1)


def _running(text: str) -> Optional[Version]:
    """The release stands after the colon of "[7.6.0.1.220:8.0.0]"."""
    match = _RUNNING.search(text)
    return version(match[2], width=1) if match else None
