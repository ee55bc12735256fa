"""Main memory, swap, shared memory and free disk space, in MiB."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Optional

from doctor.facts import HostFacts, Missing, Reading, missing, seen
from doctor.facts.host import DiskSpace
from doctor.probes.files import relay
from doctor.probes.host import Host

_MEMINFO = "/proc/meminfo"
_SHM = "/dev/shm"  # noqa: S108 - asked about, not written to
_KIB_LINE = re.compile(r"^(\w+):\s+(\d{1,18}) kB$", re.MULTILINE)
# The limit and use of the control group that this process lives in: version 2, then 1.
_CGROUPS = (
    ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
    (
        "/sys/fs/cgroup/memory/memory.limit_in_bytes",
        "/sys/fs/cgroup/memory/memory.usage_in_bytes",
    ),
)
# Where models, images and caches go unless the environment says otherwise.
_PLACES = ("/", "/tmp", "/var/lib/docker", "/var/lib/containerd")  # noqa: S108
_PLACE_VARIABLES = ("HF_HUB_CACHE", "HF_HOME", "XDG_CACHE_HOME", "HOME")


def read(host: Host, facts: HostFacts) -> HostFacts:
    """Fill sizes of memory and free disk space."""
    text = host.read_text(_MEMINFO)
    stated = parse_meminfo(text.value or "")
    limit, room = _cgroup_limit(host)
    return replace(
        facts,
        memory_mib=_capped(_size(text, stated, "MemTotal"), limit),
        memory_available_mib=_capped(_size(text, stated, "MemAvailable"), room),
        swap_mib=_size(text, stated, "SwapTotal"),
        shm_mib=_shm(host),
        disk_free=_disk_free(host),
    )


def parse_meminfo(text: str) -> dict[str, int]:
    """The lines of /proc/meminfo in MiB."""
    return {name: int(kib) >> 10 for name, kib in _KIB_LINE.findall(text)}


def _size(text: Reading[str], stated: dict[str, int], name: str) -> Reading[int]:
    if text.value is None:
        return relay(text)
    if name not in stated:
        return missing(Missing.NOT_READABLE, _MEMINFO)
    return seen(stated[name], _MEMINFO)


def _cgroup_limit(host: Host) -> tuple[Optional[Reading[int]], Optional[Reading[int]]]:
    """Limit and what is left of it; None without a limit."""
    for limit_path, use_path in _CGROUPS:
        limit = _bytes_as_mib(host.read_text(limit_path, 64))
        if limit is not None:
            use = _bytes_as_mib(host.read_text(use_path, 64)) or 0
            return seen(limit, limit_path), seen(max(0, limit - use), limit_path)
    return None, None


def _bytes_as_mib(text: Reading[str]) -> Optional[int]:
    """None for "max" and for what is no number."""
    number = (text.value or "").strip()
    return int(number) >> 20 if number.isascii() and number.isdigit() else None


def _capped(size: Reading[int], limit: Optional[Reading[int]]) -> Reading[int]:
    if limit is None or limit.value is None or size.value is None:
        return size
    return limit if limit.value < size.value else size


def _shm(host: Host) -> Reading[int]:
    usage = host.disk(_SHM)
    return seen(usage.value.total_mib, _SHM) if usage.value is not None else relay(usage)


def _disk_free(host: Host) -> Reading[tuple[DiskSpace, ...]]:
    env = host.environ()
    places = dict.fromkeys([*_PLACES, *(env.get(name, "") for name in _PLACE_VARIABLES)])
    found = []
    for place in places:
        usage = host.disk(place) if place.startswith("/") else missing(Missing.NOT_STATED)
        if usage.value is not None:
            found.append(DiskSpace(place, usage.value.free_mib))
    return seen(tuple(found), "statvfs") if found else relay(host.disk("/"))
