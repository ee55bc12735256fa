"""The file system of this machine as the simulated loader sees it."""

from __future__ import annotations

import os
from typing import Optional

from doctor.binaries.elf import Elf
from doctor.binaries.linkage import Linkage, read_linkage
from doctor.binaries.sources import BinaryUnreadable, open_file


class LocalTree:
    """Folders and libraries of this machine; each is read once."""

    def __init__(self) -> None:
        self._names: dict[str, frozenset[str]] = {}
        self._real: dict[str, str] = {}
        self._linkage: dict[str, Optional[Linkage]] = {}

    def names(self, folder: str) -> frozenset[str]:
        """Names in a folder; none if it cannot be read."""
        if folder not in self._names:
            try:
                self._names[folder] = frozenset(os.listdir(folder))
            except (OSError, ValueError):
                self._names[folder] = frozenset()
        return self._names[folder]

    def real(self, path: str) -> str:
        """The path with its links resolved."""
        if path not in self._real:
            self._real[path] = os.path.realpath(path)
        return self._real[path]

    def linkage(self, real: str) -> Optional[Linkage]:
        """What the loader reads of a file, or None if it is no usable library."""
        if real not in self._linkage:
            self._linkage[real] = linkage_of(real)
        return self._linkage[real]


def linkage_of(path: str) -> Optional[Linkage]:
    """Read one file's dynamic section; None if it is no usable library."""
    try:
        with open_file(path) as source:
            return read_linkage(Elf(source))
    except (BinaryUnreadable, MemoryError, OSError):
        return None


def read_bytes(path: str, limit: int) -> bytes:
    """A small file whole; empty if it cannot be read or is larger."""
    try:
        with open_file(path) as source:
            return source.read(0, source.size) if source.size <= limit else b""
    except BinaryUnreadable:
        return b""
