"""One environment under one set of variables: what its libraries hold, and what would load."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from doctor.binaries import abi
from doctor.binaries.abi import Providers
from doctor.binaries.compiler import compiler_version
from doctor.binaries.ldcache import parse_cache
from doctor.binaries.loader import DRIVER_LIBRARIES, Loader, Resolution, SearchPath
from doctor.binaries.sources import BinaryUnreadable
from doctor.binaries.tree import read_bytes
from doctor.facts import Binary, Scope, Version
from doctor.probes import library_files
from doctor.probes.host_tree import HostTree

_CACHE, _CACHE_LIMIT = "/etc/ld.so.cache", 16 << 20


class Survey:
    """One environment under one set of variables."""

    def __init__(self, tree: HostTree, scope: Scope, env: dict[str, str], driver: bool) -> None:
        self._tree = tree
        self._memory = tree.memory
        self._scope = scope
        self._driver = driver
        on_host = scope.kind == "host"
        self._files = (
            library_files.find_on_host(tree) if on_host else library_files.find(tree, scope)
        )
        self._loader = Loader(tree, self._search(env))

    @property
    def has_libraries(self) -> bool:
        """True if there is anything of interest to read."""
        return any(self._files.key.values())

    def binaries(self) -> tuple[Binary, ...]:
        """Facts of the key libraries, and of others only where something is wrong."""
        owners = self._open_all()
        providers = Providers((item.name, self._local(item.real)) for item in self._loader.loaded)
        stamp = self._stamp()
        try:
            found = [self._binary(real, owners[real], providers, stamp) for real in owners]
        finally:
            providers.close()
        return (*filter(self._is_wanted, found), *self._compilers())

    def libcuda(self) -> str:
        """The real path of the libcuda.so.1 that would load beside the libraries, or ""."""
        machine = next((item.linkage.machine for item in self._loader.loaded), "")
        found = self._loader.find("libcuda.so.1", machine)
        return found.real if found is not None else ""

    def _open_all(self) -> dict[str, str]:
        """Load the program, torch, then the others; real paths with their distribution."""
        python = self._scope.python.value
        program = python.executable if python else ""
        if self._scope.kind != "host":
            self._loader.start(self._tree.real(program or f"{self._scope.root}/bin/python3"))
        key = self._files.key
        torch = library_files.torch_openings(key.get("torch", []))
        rest = [path for name, paths in key.items() if name != "torch" for path in paths]
        for path in (*torch, *rest):
            self._loader.open(path)
        both = (*key.items(), *self._files.vendor.items())
        owners = {self._tree.real(path): name for name, paths in both for path in paths}
        vendor_only = {p for paths in self._files.vendor.values() for p in paths}
        unused = {self._tree.real(p) for p in vendor_only} - set(self._loader.results)
        return {real: name for real, name in owners.items() if real not in unused}

    def _search(self, env: dict[str, str]) -> SearchPath:
        local = self._tree.host.local_path(_CACHE) if self._tree.identity(_CACHE) else None
        cache = parse_cache(read_bytes(local, _CACHE_LIMIT)) if local else {}
        listed = env.get("LD_LIBRARY_PATH", "").replace(";", ":").split(":")
        environment = tuple(folder.rstrip("/") for folder in listed if folder.startswith("/"))
        return SearchPath(environment, cache, tuple(self._fallbacks()))

    def _fallbacks(self) -> Iterator[str]:
        """Folders of NVIDIA's packages, in which torch looks when the loader finds nothing."""
        folders = (p.rpartition("/")[0] for paths in self._files.vendor.values() for p in paths)
        yield from dict.fromkeys(folders)

    def _binary(self, real: str, package: str, providers: Providers, stamp: str) -> Binary:
        binary = self._tree.contents(real).binary(real, package)
        result = self._loader.results.get(real)
        if result is None or binary.unreadable:
            return binary
        unresolved = [n for n in result.unresolved if self._driver or n not in DRIVER_LIBRARIES]
        return replace(
            binary,
            unresolved=tuple(unresolved),
            shadowed=tuple(map(str, result.shadows)),
            other_majors=tuple(result.other_majors),
            versions_missing=tuple(result.missing_versions),
            undefined=self._undefined(real, package, result, providers, stamp),
        )

    def _undefined(
        self, real: str, package: str, result: Resolution, providers: Providers, stamp: str
    ) -> tuple[str, ...]:
        """Symbols that nothing defines; kept for as long as no loaded library changes."""
        identity = [*self._tree.identity(real), stamp]
        known = self._memory.recall("undefined", real, identity)
        if not _is_texts(known):
            known = list(dict.fromkeys(self._look_up(real, package, result, providers)))
            self._memory.keep("undefined", real, identity, known)
        return tuple(known)

    def _look_up(
        self, real: str, package: str, result: Resolution, providers: Providers
    ) -> Iterator[str]:
        try:
            wanted = abi.wanted_symbols(self._local(real))
        except BinaryUnreadable:
            return
        # The libraries of torch are of one build.
        foreign = [s for s in wanted if package != "torch" or abi.family_of(s) != "torch"]
        yield from providers.missing(foreign, frozenset(result.unresolved))
        for shadow in result.shadows:
            user, taken, hidden = map(self._local, (real, shadow.taken, shadow.hidden))
            yield from abi.lost_symbols(user, taken, hidden)

    def _compilers(self) -> Iterator[Binary]:
        """The PTX compilers that a distribution brings for code made at run time."""
        for package, paths in self._files.compilers.items():
            for path in paths:
                version = self._compiler(self._tree.real(path))
                if version:
                    yield Binary(path=path, package=package, compiler=Version(version))

    def _compiler(self, real: str) -> str:
        identity = self._tree.identity(real)
        known = self._memory.recall("compiler", real, identity)
        if not isinstance(known, str):
            known = str(compiler_version(self._local(real)) or "")
            self._memory.keep("compiler", real, identity, known)
        return known

    def _is_wanted(self, binary: Binary) -> bool:
        faults = (*(binary.unresolved or ()), *binary.undefined, *binary.versions_missing)
        if library_files.is_on_demand(binary.path):
            return not faults
        return binary.package in self._files.key or bool(faults or binary.shadowed)

    def _stamp(self) -> str:
        """Changes with any library of the process, and with which copies the loader takes."""
        loaded = self._loader.loaded
        shadows = [str(s) for r in self._loader.results.values() for s in r.shadows]
        missed = [name for r in self._loader.results.values() for name in r.unresolved]
        state = [(item.real, self._tree.identity(item.real)) for item in loaded]
        return hashlib.sha256(repr((state, shadows, missed)).encode()).hexdigest()

    def _local(self, real: str) -> str:
        return self._tree.host.local_path(real) or ""


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)
