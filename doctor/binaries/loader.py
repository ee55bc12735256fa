"""Which libraries the dynamic loader would take, without loading anything.

The order is that of ld.so(8): what is loaded already under that name; RPATH of the
library and of those that asked for it, unless RUNPATH is there; LD_LIBRARY_PATH;
RUNPATH; the cache of ldconfig; the default folders. Candidates for another machine
are passed over, as the loader does.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Optional, Protocol

from doctor.binaries.linkage import Linkage

DRIVER_LIBRARIES = frozenset({"libcuda.so.1", "libnvidia-ml.so.1", "libnvidia-ptxjitcompiler.so.1"})
"""Libraries that come with the NVIDIA driver: containers get them from their host."""

_MULTIARCH = {"x86_64": "x86_64-linux-gnu", "aarch64": "aarch64-linux-gnu"}
_VARIABLE = re.compile(r"\$(?:(ORIGIN|LIB)\b|\{(ORIGIN|LIB)\})")
_MAX_OBJECTS = 5000
_OWN, _ENVIRONMENT, _SYSTEM, _PROGRAM = range(4)


class Tree(Protocol):
    """The file system that the loader would see. Paths are absolute paths in it."""

    def names(self, folder: str) -> frozenset[str]:
        """Names in a folder; none if it cannot be read."""

    def real(self, path: str) -> str:
        """The path with its links resolved."""

    def linkage(self, real: str) -> Optional[Linkage]:
        """What the loader reads of a file, or None if it is no usable library."""


@dataclass(frozen=True)
class SearchPath:
    """Where the loader looks beside the libraries' own paths.

    `fallbacks` are folders that the program itself tries when the loader fails, as
    torch does with the NVIDIA packages beside it.
    """

    environment: tuple[str, ...] = ()
    cache: dict[tuple[str, str], tuple[str, ...]] = field(default_factory=dict)
    fallbacks: tuple[str, ...] = ()


@dataclass(frozen=True)
class Loaded:
    """A library in the simulated process: path as found, real path, who asked for it."""

    path: str
    real: str
    linkage: Linkage
    parent: Optional[Loaded] = None

    @property
    def name(self) -> str:
        """What others ask for it by."""
        return self.linkage.soname or self.path.rpartition("/")[2]

    @property
    def origin(self) -> str:
        """Its folder, for $ORIGIN."""
        return self.path.rpartition("/")[0]

    @cached_property
    def run_folders(self) -> tuple[str, ...]:
        """Folders of its RUNPATH."""
        return tuple(self._folders(self.linkage.runpath))

    @cached_property
    def inherited_folders(self) -> tuple[str, ...]:
        """Folders of its RPATH and of those that asked for it; an RPATH beside RUNPATH is void."""
        own = () if self.linkage.runpath else tuple(self._folders(self.linkage.rpath))
        above = self.parent.inherited_folders if self.parent is not None else ()
        return own + tuple(folder for folder in above if folder not in own)

    def _folders(self, entries: Iterable[str]) -> Iterator[str]:
        values = {"ORIGIN": self.origin, "LIB": "lib64"}
        for entry in entries:
            filled = _VARIABLE.sub(lambda match: values[match[1] or match[2]], entry)
            if filled.startswith("/"):
                yield _normal(filled)


@dataclass(frozen=True)
class Shadow:
    """A library that the environment puts before the one that its user was built with.

    Both are real paths; copies with the same build id are not shadows.
    """

    name: str
    taken: str
    hidden: str

    def __str__(self) -> str:
        return f"{self.name}: {self.taken} hides {self.hidden}"


@dataclass
class Resolution:
    """What came of one library's needs.

    `other_majors` are libraries of the same name and another major number that are
    there instead of a missing one; `missing_versions` symbol versions that the library
    which was taken does not define ("libstdc++.so.6: GLIBCXX_3.4.32").
    """

    taken: dict[str, Loaded] = field(default_factory=dict)
    unresolved: list[str] = field(default_factory=list)
    shadows: list[Shadow] = field(default_factory=list)
    other_majors: list[str] = field(default_factory=list)
    missing_versions: list[str] = field(default_factory=list)


class Loader:
    """One simulated process: libraries that were opened stay loaded."""

    def __init__(self, tree: Tree, search: SearchPath) -> None:
        self._tree = tree
        self._search = search
        self._by_name: dict[str, Loaded] = {}
        self._by_real: dict[str, Loaded] = {}
        self._program: Optional[Loaded] = None
        self._majors: dict[tuple[str, tuple[str, ...]], tuple[str, ...]] = {}
        self.results: dict[str, Resolution] = {}
        """What came of each loaded library, by its real path."""

    @property
    def loaded(self) -> tuple[Loaded, ...]:
        """Everything in the process, in the order in which it came."""
        return tuple(self._by_real.values())

    def start(self, program: str) -> None:
        """Load the program; its RPATH serves every library that has no RUNPATH."""
        self._program = self.open(program)

    def open(self, path: str) -> Optional[Loaded]:
        """Load a library with all that it needs; None if it is no usable library."""
        real = self._tree.real(path)
        if real in self._by_real:
            return self._by_real[real]
        linkage = self._tree.linkage(real)
        if linkage is None:
            return None
        opened = self._add(Loaded(path, real, linkage, self._program))
        self._close_over(opened)
        return opened

    def find(self, name: str, machine: str) -> Optional[Loaded]:
        """What a program without paths of its own gets for a name, or has loaded already."""
        if name in self._by_name:
            return self._by_name[name]
        nobody = Loaded("", "", Linkage(machine=machine))
        return next((found for found, _ in self._candidates(name, nobody)), None)

    def _add(self, loaded: Loaded, name: str = "") -> Loaded:
        self._by_real[loaded.real] = loaded
        for known_as in (name, loaded.linkage.soname, loaded.path.rpartition("/")[2]):
            if known_as:
                self._by_name.setdefault(known_as, loaded)
        return loaded

    def _close_over(self, first: Loaded) -> None:
        """Load what is needed, breadth first as the loader does."""
        queue = [first]
        for user in queue:
            result = self.results.setdefault(user.real, Resolution())
            for name in user.linkage.needed:
                if name not in self._by_name:
                    queue += self._load(name, user, result)
                if name in self._by_name:
                    result.taken[name] = self._by_name[name]
            for name, versions in user.linkage.requires:
                result.missing_versions += _missing_versions(name, versions, result.taken)
            if len(queue) > _MAX_OBJECTS:
                return

    def _load(self, name: str, user: Loaded, result: Resolution) -> list[Loaded]:
        """Find and add one library; returns it if it is new in the process."""
        for found, place in self._candidates(name, user):
            if place == _ENVIRONMENT:
                result.shadows += self._shadows(name, found, user)
            if found.real in self._by_real:
                self._by_name[name] = self._by_real[found.real]
                return []
            return [self._add(found, name)]
        result.unresolved.append(name)
        result.other_majors += self._other_majors(name, user)
        return []

    def _candidates(self, name: str, user: Loaded) -> Iterator[tuple[Loaded, int]]:
        """What the loader would take for a name, best first, and at which place it was found."""
        if "/" in name:
            yield from self._usable([name], user, _OWN)
            return
        for folders, place in self._places(user):
            paths = [f"{folder}/{name}" for folder in folders if name in self._tree.names(folder)]
            yield from self._usable(paths, user, place)
        machine = user.linkage.machine
        yield from self._usable(self._search.cache.get((machine, name), ()), user, _SYSTEM)
        for folders, place in ((_defaults(machine), _SYSTEM), (self._search.fallbacks, _PROGRAM)):
            paths = [f"{folder}/{name}" for folder in folders if name in self._tree.names(folder)]
            yield from self._usable(paths, user, place)

    def _places(self, user: Loaded) -> Iterator[tuple[Iterable[str], int]]:
        if not user.linkage.runpath:
            yield user.inherited_folders, _OWN
        yield self._search.environment, _ENVIRONMENT
        yield user.run_folders, _OWN

    def _usable(
        self, paths: Iterable[str], user: Loaded, place: int
    ) -> Iterator[tuple[Loaded, int]]:
        for path in paths:
            real = self._tree.real(path)
            linkage = self._tree.linkage(real)
            if linkage is not None and linkage.machine == user.linkage.machine:
                yield Loaded(path, real, linkage, user), place

    def _shadows(self, name: str, taken: Loaded, user: Loaded) -> Iterator[Shadow]:
        """The copy that the user's own paths, or its program, would have led to."""
        for found, place in self._candidates(name, user):
            if place not in (_OWN, _PROGRAM) or found.real == taken.real:
                continue
            if not found.linkage.build_id or found.linkage.build_id != taken.linkage.build_id:
                yield Shadow(name, taken.real, found.real)
            return

    def _other_majors(self, name: str, user: Loaded) -> tuple[str, ...]:
        """Libraries of the same name and another major, in any folder that was searched."""
        stem, dot, _ = name.rpartition(".so.")
        key = (name, user.linkage.runpath)
        if dot and key not in self._majors:
            start = stem + dot
            folders = [*self._search.environment, *user.run_folders]
            folders += [*_defaults(user.linkage.machine), *self._search.fallbacks]
            near = {
                n for folder in folders for n in self._tree.names(folder) if n.startswith(start)
            }
            near |= {n for _, n in self._search.cache if n.startswith(start)}
            major = _major(name, start)
            others = sorted(n for n in near if _major(n, start) not in ("", major))
            self._majors[key] = tuple(f"{name}: {other}" for other in others)
        return self._majors.get(key, ())


def _major(name: str, start: str) -> str:
    number = name[len(start) :].partition(".")[0]
    return number if number.isdecimal() else ""


def _missing_versions(name: str, wanted: tuple[str, ...], taken: dict[str, Loaded]) -> list[str]:
    """Symbol versions that the taken library lacks; one without versions only earns a warning."""
    offered = taken[name].linkage.provides if name in taken else ()
    if not offered:
        return []
    return [f"{name}: {version}" for version in wanted if version not in offered]


def _defaults(machine: str) -> tuple[str, ...]:
    arch = _MULTIARCH.get(machine)
    multiarch = (f"/lib/{arch}", f"/usr/lib/{arch}") if arch else ()
    return (*multiarch, "/lib64", "/usr/lib64", "/lib", "/usr/lib")


def _normal(path: str) -> str:
    parts: list[str] = []
    for part in path.split("/"):
        if part == "..":
            del parts[-1:]
        elif part not in ("", "."):
            parts.append(part)
    return "/" + "/".join(parts)
