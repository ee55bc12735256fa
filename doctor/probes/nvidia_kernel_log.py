"""What the NVIDIA driver wrote into the kernel log: Xid events and messages of failure."""

from __future__ import annotations

import re
from typing import NamedTuple

from doctor.facts import Missing, Reading, missing, seen
from doctor.facts.accelerators import XidEvent
from doctor.probes import kernel
from doctor.probes.host import Host

_MOST, _LONGEST = 100, 400

_STAMP = re.compile(r"^\[ {0,12}\d{1,12}\.\d{1,9}\] ?|^.{1,80}? kernel: ")
_XID = re.compile(r"NVRM: Xid \(PCI:([0-9A-Fa-f:.]{7,20})\): (\d{1,4}), ?(.*)")
# What tells of a fault: most of what the resource manager says, and what the kernel
# says of a module that it will not load.
_TELLING = ("NVRM:", "Key was rejected", "request_free_mem_region", "SXid", "nvidia-uvm: ")
_REFUSED = ("Unknown symbol", "disagrees about version", "version magic", "probe with driver")
# Greetings, and lines that name a board without saying more than the Xid beside them.
_IDLE = ("loading NVIDIA UNIX", "Loaded the UVM driver", "GPU at PCI:", "Serial Number")


class KernelLog(NamedTuple):
    """Xid events and other messages, oldest first; of many the last hundred."""

    xid: Reading[tuple[XidEvent, ...]]
    messages: Reading[tuple[str, ...]]


def read(host: Host) -> KernelLog:
    """The driver's part of the kernel log, if this user may read it."""
    text = kernel.read_log(host)
    if text.value is None:
        # A host without the tools still has a log.
        unread = Missing.NOT_READABLE if text.is_absent else text.missing or Missing.NOT_READABLE
        return KernelLog(missing(unread, text.at), missing(unread, text.at))
    xid, messages = parse_log(text.value)
    return KernelLog(seen(xid, text.at), seen(messages, text.at))


def parse_log(text: str) -> tuple[tuple[XidEvent, ...], tuple[str, ...]]:
    """Xid events, and messages that tell of a fault, without their stamps."""
    events, messages = [], []
    for line in text.splitlines():
        if not _tells(line):
            continue
        message = _STAMP.sub("", line[:_LONGEST], count=1).strip()
        match = _XID.search(message)
        if match:
            events.append(XidEvent(int(match[2]), _address(match[1]), match[3].strip()))
        else:
            messages.append(message)
    return tuple(events[-_MOST:]), tuple(dict.fromkeys(messages[-_MOST:]))


def _tells(line: str) -> bool:
    if any(word in line for word in _TELLING):
        return not any(word in line for word in _IDLE)
    return "nvidia" in line and any(word in line for word in _REFUSED)


def _address(text: str) -> str:
    """The PCI address in full: the log leaves out the function."""
    return (text if "." in text else f"{text}.0").lower()
