"""The copies of libcuda and libnvidia-ml on a host: real files, versions, the loader's order.

A copy that the loader finds first may come from a forward-compatibility package and
differ from the driver; that is why all places are looked at.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Optional

from doctor.facts import DriverLibrary, Missing, Reading, Version, missing, seen
from doctor.probes.host import Host

CUDA, NVML = "libcuda.so.1", "libnvidia-ml.so.1"

_CONF = "/etc/ld.so.conf"
_CONF_LIMIT = 1 << 16
_MOST_INCLUDES = 64
_MULTIARCH = ("x86_64-linux-gnu", "aarch64-linux-gnu")
# Where ld.so looks last without being told.
_TRUSTED = (
    *(f"{top}/{arch}" for arch in _MULTIARCH for top in ("/lib", "/usr/lib")),
    *("/lib64", "/usr/lib64", "/lib", "/usr/lib"),
)
# Places of copies that the loader may not search: WSL, containers, Jetson, NixOS.
_ELSEWHERE = (
    "/usr/lib/wsl/lib",
    "/usr/local/nvidia/lib64",
    "/usr/local/nvidia/lib",
    "/usr/lib/aarch64-linux-gnu/tegra",
    "/usr/lib/aarch64-linux-gnu/nvidia",
    "/run/opengl-driver/lib",
)
_VERSION = re.compile(r"\.so\.(\d{2,4}(?:\.\d{1,4}){1,2})$")
_COMPAT = re.compile(r"/(?:cuda-)?compat[^/]*/")


def read(host: Host, name: str, environ: Mapping[str, str]) -> Reading[tuple[DriverLibrary, ...]]:
    """All copies of a library; those that the loader would find come first, in its order."""
    searched = tuple(dict.fromkeys(_search_path(host, environ)))
    found: dict[str, DriverLibrary] = {}
    for folder in (*searched, *_ELSEWHERE, *_compat_folders(host)):
        real = host.real_path(f"{folder}/{name}").value
        if real is not None and real not in found:
            place = searched.index(folder) if folder in searched else None
            found[real] = _library(host, real, f"{folder}/{name}", place)
    if not found:
        return missing(Missing.NOT_THERE, name)
    return seen(tuple(found.values()), name)


def _library(host: Host, real: str, path: str, place: Optional[int]) -> DriverLibrary:
    compat = bool(_COMPAT.search(real) or _COMPAT.search(path))
    library = DriverLibrary(real, parse_version(real), compat=compat, searched=place)
    local = host.local_path(real) if compat else None
    return library if local is None else _with_note(library, local)


def _with_note(library: DriverLibrary, local: str) -> DriverLibrary:
    """Add which driver branches and brands of cards the library's note allows."""
    from doctor.binaries import notes
    from doctor.binaries.elf import Elf
    from doctor.binaries.sources import BinaryUnreadable, open_file

    try:
        with open_file(local) as source:
            note = notes.forward_compatibility(Elf(source))
    except BinaryUnreadable:
        return library
    if note is None:
        return library
    return replace(library, branches=note.branches, brands=note.brands, cuda=note.cuda)


def parse_version(path: str) -> Optional[Version]:
    """The driver's version at the end of a real file's name; WSL and Jetson have none."""
    match = _VERSION.search(path)
    return Version.maybe(match[1]) if match else None


def userspace(*libraries: Reading[tuple[DriverLibrary, ...]]) -> Reading[Version]:
    """Version of the first library that belongs to the driver itself, not to a compat package."""
    absent = all(library.is_absent for library in libraries)
    for reading in libraries:
        for library in reading.value or ():
            if library.version is not None and not library.compat:
                return seen(library.version, library.path)
    return missing(Missing.NOT_THERE if absent else Missing.NOT_READABLE, libraries[0].at)


def _search_path(host: Host, environ: Mapping[str, str]) -> Iterator[str]:
    """Folders in the loader's order: the environment, ld.so.conf, the trusted ones."""
    for folder in environ.get("LD_LIBRARY_PATH", "").split(":"):
        if folder.startswith("/"):
            yield folder.rstrip("/") or "/"
    yield from _configured(host)
    yield from _TRUSTED


def _configured(host: Host) -> list[str]:
    text = host.read_text(_CONF, _CONF_LIMIT).value or ""
    folders = []
    for line in parse_conf(text):
        if line.startswith("/"):
            folders.append(line)
        else:
            folders += [f for f in _included(host, line) if f.startswith("/")]
    return folders


def parse_conf(text: str) -> list[str]:
    """Folders of an ld.so.conf, and its includes as "include PATTERN"."""
    lines = (line.partition("#")[0].strip() for line in text.splitlines())
    return [line.rstrip("/") or "/" for line in lines if line.startswith(("/", "include"))]


def _included(host: Host, line: str) -> Iterable[str]:
    """Folders of the files that an include of the usual form FOLDER/*.conf names."""
    folder, _, pattern = line.partition(" ")[2].strip().rpartition("/")
    if not folder.startswith("/"):
        folder = f"/etc/{folder}"
    names = host.list_dir(folder).value or ()
    ending = pattern.lstrip("*")
    for name in [n for n in names if n.endswith(ending)][:_MOST_INCLUDES]:
        yield from parse_conf(host.read_text(f"{folder}/{name}", _CONF_LIMIT).value or "")


def _compat_folders(host: Host) -> list[str]:
    names = host.list_dir("/usr/local").value or ()
    return [f"/usr/local/{name}/compat" for name in names if name.startswith("cuda")]
