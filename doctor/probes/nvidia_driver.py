"""The NVIDIA driver in the running kernel, and the GPU firmware that lies ready for it."""

from __future__ import annotations

import re
from typing import NamedTuple

from doctor.facts import Missing, Reading, Version, missing, seen
from doctor.probes import files
from doctor.probes.host import Host

_PROC = "/proc/driver/nvidia/version"
_MODULE = "/sys/module/nvidia"
_FIRMWARE = "/lib/firmware/nvidia"
_SMALL = 4096

_NVRM = re.compile(r"NVRM version:[^\n]{0,120}?(?<![\w.])(\d{2,4}\.\d{1,4}(?:\.\d{1,4})?)\s")


class LoadedModule(NamedTuple):
    """The module in the kernel: the driver's version, and "open" or "proprietary"."""

    driver: Reading[Version]
    flavour: Reading[str]


def read(host: Host) -> LoadedModule:
    """The loaded module; absent if neither /proc nor /sys knows it."""
    text = host.read_text(_PROC, _SMALL)
    driver = parse_version(text)
    if not driver.is_known:
        driver = _sys_version(host, driver)
    return LoadedModule(driver, parse_flavour(text))


def parse_version(text: Reading[str]) -> Reading[Version]:
    """The version in /proc/driver/nvidia/version, proprietary or open wording."""
    if text.value is None:
        return files.relay(text)
    match = _NVRM.search(text.value + "\n")
    version = Version.maybe(match[1]) if match else None
    return missing(Missing.NOT_READABLE, text.at) if version is None else seen(version, text.at)


def parse_flavour(text: Reading[str]) -> Reading[str]:
    """Which of the two modules /proc/driver/nvidia/version speaks of."""
    if text.value is None:
        return files.relay(text)
    line = text.value.partition("\n")[0]
    if "Kernel Module" not in line:
        return missing(Missing.NOT_READABLE, text.at)
    return seen("open" if "Open Kernel Module" in line else "proprietary", text.at)


def _sys_version(host: Host, unread: Reading[Version]) -> Reading[Version]:
    """What sysfs says; a module that is not there in both places is not loaded."""
    text = host.read_text(f"{_MODULE}/version", _SMALL)
    version = Version.maybe((text.value or "").strip())
    if version is not None:
        return seen(version, text.at)
    if host.stat(_MODULE).is_known:
        return missing(Missing.NOT_READABLE, _MODULE)
    return unread


def read_firmware(host: Host) -> Reading[tuple[Version, ...]]:
    """Driver versions for which the GPUs' own firmware is installed."""
    names = host.list_dir(_FIRMWARE)
    if names.value is None:
        return files.relay(names)
    versions = (Version.maybe(name) for name in names.value if name[:1].isdigit())
    return seen(tuple(v for v in versions if v is not None), names.at)
