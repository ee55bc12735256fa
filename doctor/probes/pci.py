"""Accelerators on the PCI bus, from sysfs: works without any driver."""

from __future__ import annotations

import re
from typing import NamedTuple, Optional

from doctor.facts import Link, Missing, Reading, missing, seen
from doctor.probes import files
from doctor.probes.host import Host

DEVICES = "/sys/bus/pci/devices"
_DISPLAY = frozenset({0x0300, 0x0302, 0x0380})
_BRIDGE, _PROCESSING = 0x0680, 0x1200
_SMALL = 4096

# Intel's other processing accelerators are no GPUs, Huawei's display class is a
# management controller.
_ACCELERATORS = {
    "10de": ("nvidia", _DISPLAY),
    "1002": ("amd", _DISPLAY | {_PROCESSING}),
    "19e5": ("ascend", frozenset({_PROCESSING})),
    "8086": ("intel", _DISPLAY),
    "cabc": ("cambricon", _DISPLAY | {_PROCESSING}),
}
_NVIDIA = "10de"
_LINE = re.compile(r"(DRIVER|PCI_CLASS|PCI_ID|PCI_SUBSYS_ID)=([\w:.-]{1,64})")
_ID = re.compile(r"[0-9a-f]{4}:[0-9a-f]{4}")
# Whole gigatransfers a second of a lane, by generation.
_GENERATIONS = {2: 1, 5: 2, 8: 3, 16: 4, 32: 5, 64: 6}


class PciFunction(NamedTuple):
    """One function of a PCI device: `address` "0000:18:00.0", `id` and `subsystem` "10de:2330".

    `code` is the class with its subclass (0x0302), `driver` the bound driver or "".
    """

    address: str
    id: str
    subsystem: str
    code: int
    driver: str = ""

    @property
    def vendor(self) -> str:
        """The maker of an accelerator ("nvidia", "ascend" ...), or "" for anything else."""
        name, codes = _ACCELERATORS.get(self.id[:4], ("", frozenset()))
        return name if self.code in codes else ""

    @property
    def is_nvswitch(self) -> bool:
        """True for a switch chip that joins NVIDIA GPUs."""
        return self.code == _BRIDGE and self.id.startswith(_NVIDIA)


def read(host: Host) -> Reading[tuple[PciFunction, ...]]:
    """Accelerators and NVSwitches in the order of their addresses."""
    names = host.list_dir(DEVICES)
    if names.is_absent and not host.list_dir("/sys/bus").is_known:
        # Without sysfs nothing was looked at: a tree with a kernel's /proc and no /sys.
        return missing(Missing.NOT_READABLE, DEVICES)
    if names.value is None:
        return files.relay(names)
    found = (_read_function(host, name) for name in names.value)
    kept = [f for f in found if f is not None and (f.vendor or f.is_nvswitch)]
    return seen(tuple(sorted(kept, key=_place)), DEVICES)


def _read_function(host: Host, address: str) -> Optional[PciFunction]:
    text = host.read_text(f"{DEVICES}/{address}/uevent", _SMALL).value
    return None if text is None else parse_uevent(address, text)


def _place(function: PciFunction) -> tuple[int, str]:
    """Domains may have more digits than four; they sort as numbers."""
    return (len(function.address), function.address)


def parse_uevent(address: str, text: str) -> Optional[PciFunction]:
    """Read a function's `uevent` file; None if it does not say what the function is."""
    found = {match[1]: match[2] for match in map(_LINE.fullmatch, text.splitlines()) if match}
    ids = [found.get(name, "").lower() for name in ("PCI_ID", "PCI_SUBSYS_ID")]
    try:
        code = int(found.get("PCI_CLASS", ""), 16) >> 8
    except ValueError:
        return None
    if _ID.fullmatch(ids[0]) is None:
        return None
    subsystem = ids[1] if _ID.fullmatch(ids[1]) else ""
    return PciFunction(address, ids[0], subsystem, code, found.get("DRIVER", ""))


def read_link(host: Host, address: str) -> Reading[Link]:
    """The link of a function now and at best, as the kernel sees it."""
    folder = f"{DEVICES}/{address}"
    widths = [_number(host, f"{folder}/{which}_link_width") for which in ("current", "max")]
    speeds = [_number(host, f"{folder}/{which}_link_speed") for which in ("current", "max")]
    gens = [None if speed is None else _GENERATIONS.get(speed) for speed in speeds]
    if not any((*widths, *gens)):
        return missing(Missing.NOT_READABLE, folder)
    return seen(Link(widths[0], widths[1], gens[0], gens[1]), folder)


def _number(host: Host, path: str) -> Optional[int]:
    """The whole number at the start of a file, such as 16 of "16.0 GT/s PCIe"."""
    text = (host.read_text(path, _SMALL).value or "").strip()
    digits = re.match(r"\d{1,6}", text)
    # The kernel writes 63 or 255 lanes where nothing answers.
    return int(digits[0]) if digits and int(digits[0]) not in (0, 63, 255) else None
