"""Build tools and system libraries that engines need at run time: which of them are not there."""

from __future__ import annotations

from dataclasses import replace

from doctor.facts import HostFacts, Missing, Reading, missing, seen
from doctor.probes.commands import SEARCH_PATH
from doctor.probes.host import Host
from doctor.probes.system import LIBRARY_FOLDERS

# Compilers that Triton, FlashInfer and torch.compile start, each with names that will do.
_TOOLS = {"gcc": ("gcc", "cc"), "g++": ("g++", "c++"), "ninja": ("ninja",), "cmake": ("cmake",)}
_LIBRARIES = (
    "libnuma.so.1",
    "libgomp.so.1",
    "libGL.so.1",
    "libibverbs.so.1",
    "librdmacm.so.1",
    "libmpi.so.40",
)


def read(host: Host, facts: HostFacts) -> HostFacts:
    """Fill what was looked for and is not there."""
    return replace(facts, absent=_absent(host))


def find_program(host: Host, name: str) -> Reading[str]:
    """Where the system's own folders hold a program."""
    return _find(host, [f"{folder}/{name}" for folder in SEARCH_PATH.split(":")])


def _find(host: Host, paths: list[str]) -> Reading[str]:
    """The first path that exists; absent only if each was observed to be absent."""
    answer: Reading[str] = missing(Missing.NOT_THERE, paths[0])
    for path in paths:
        real = host.real_path(path)
        if real.is_known:
            return seen(path, path)
        answer = answer if real.is_absent else real
    return answer


def _absent(host: Host) -> Reading[tuple[str, ...]]:
    found = [
        tool
        for tool, names in _TOOLS.items()
        if all(find_program(host, name).is_absent for name in names)
    ]
    found += [
        name
        for name in _LIBRARIES
        if _find(host, [f"{folder}/{name}" for folder in LIBRARY_FOLDERS]).is_absent
    ]
    # More than was looked for may be absent.
    return seen(tuple(found), "search in the system's folders", partial=True)
