"""Build tools and system libraries that engines need at run time: which of them are not there."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from doctor.facts import HostFacts, Missing, Reading, missing, seen
from doctor.probes.commands import SEARCH_PATH
from doctor.probes.host import Host
from doctor.probes.system import LIBRARY_FOLDERS

# Tools that engines start at run time or that build modules, each with names that will do.
_TOOLS = {
    "gcc": ("gcc", "cc"),
    "g++": ("g++", "c++"),
    "make": ("make",),
    "ninja": ("ninja",),
    "cmake": ("cmake",),
}
_LIBRARIES = {
    "libnuma.so.1": ("libnuma.so.1",),
    "libgomp.so.1": ("libgomp.so.1",),
    "libGL.so.1": ("libGL.so.1",),
    "libibverbs.so.1": ("libibverbs.so.1",),
    "librdmacm.so.1": ("librdmacm.so.1",),
    "libmpi.so.40": ("libmpi.so.40",),
    "libtcmalloc": ("libtcmalloc.so.4", "libtcmalloc_minimal.so.4"),
}
_PROGRAM_FOLDERS = tuple(SEARCH_PATH.split(":"))
# Where packages and vendors put MPI and the like, beside the folders of the system.
_MORE_FOLDERS = (
    "/usr/local/lib",
    "/usr/local/lib64",
    "/usr/lib64/openmpi/lib",
    "/opt/amazon/openmpi/lib64",
    "/opt/hpcx/ompi/lib",
)


def read(host: Host, facts: HostFacts) -> HostFacts:
    """Fill what was looked for and is not there."""
    return replace(facts, absent=_absent(host))


def find_program(host: Host, name: str) -> Reading[str]:
    """Where the system's own folders hold a program."""
    return _find(host, [f"{folder}/{name}" for folder in _PROGRAM_FOLDERS])


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
    stated = host.environ().get("LD_LIBRARY_PATH", "").split(":")
    folders = (*LIBRARY_FOLDERS, *_MORE_FOLDERS, *(f for f in stated if f.startswith("/")))
    found = [tool for tool, names in _TOOLS.items() if _are_absent(host, _PROGRAM_FOLDERS, names)]
    if _are_absent(host, (*_PROGRAM_FOLDERS, *_toolkits(host)), ("nvcc",)):
        found.append("nvcc")
    found += [name for name, files in _LIBRARIES.items() if _are_absent(host, folders, files)]
    # More than was looked for may be absent.
    return seen(tuple(found), "search in the system's folders", partial=True)


def _are_absent(host: Host, folders: Iterable[str], names: Iterable[str]) -> bool:
    paths = [f"{folder}/{name}" for name in names for folder in folders]
    return _find(host, paths).is_absent


def _toolkits(host: Host) -> list[str]:
    """Folders of CUDA's compilers, which are not on the system's search path."""
    names = host.list_dir("/usr/local").value or ()
    home = host.environ().get("CUDA_HOME", "")
    found = [f"/usr/local/{name}/bin" for name in names if name.startswith("cuda")]
    return [*found, f"{home}/bin"] if home.startswith("/") else found
