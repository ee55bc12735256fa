"""A host's file system for the simulated loader, with what was read before remembered."""

from __future__ import annotations

import os
from typing import Optional

from doctor.binaries.cache import Memory
from doctor.binaries.contents import Contents, read_file
from doctor.binaries.linkage import Linkage
from doctor.binaries.records import from_record, to_record
from doctor.probes.host import Host
from doctor.probes.libraries_snapshot import look

_CONTENTS = "contents"


class HostTree:
    """Folders and libraries of a host; each is looked at once."""

    def __init__(self, host: Host, memory: Memory) -> None:
        self.host = host
        self.memory = memory
        self._names: dict[str, frozenset[str]] = {}
        self._real: dict[str, str] = {}
        self._contents: dict[str, Contents] = {}
        self.touched: dict[str, list[int]] = {}
        """Identity of each file and folder that was looked at; empty for one that is not there."""

    def names(self, folder: str) -> frozenset[str]:
        """Names in a folder; none if it cannot be read."""
        if folder not in self._names:
            self.identity(folder)
            self._names[folder] = frozenset(self.host.list_dir(folder).value or ())
        return self._names[folder]

    def real(self, path: str) -> str:
        """The path with its links resolved."""
        if path not in self._real:
            self._real[path] = self._resolved(path)
        return self._real[path]

    def linkage(self, real: str) -> Optional[Linkage]:
        """What the loader reads of a file, or None if it is no usable library."""
        contents = self.contents(real)
        return None if contents.unreadable else contents.linkage

    def contents(self, real: str) -> Contents:
        """All that is read of a file; what is in the cache for the same file is taken."""
        if real not in self._contents:
            self._contents[real] = self._remembered(real)
        return self._contents[real]

    def identity(self, path: str) -> list[int]:
        """What tells a file from its later self; empty if it cannot be looked at."""
        if path not in self.touched:
            self.touched[path] = look(self.host, path)
        return self.touched[path]

    def _resolved(self, path: str) -> str:
        """Most libraries are no links themselves, and many share a folder."""
        folder, _, name = path.rpartition("/")
        if folder and folder not in self._real:
            self._real[folder] = self.host.real_path(folder).value or folder
        plain = f"{self._real.get(folder, '')}/{name}"
        local = self.host.local_path(plain)
        if local is not None and name not in ("", ".", "..") and not os.path.islink(local):
            return plain
        self.identity(path)  # where the link leads belongs to the answer
        return self.host.real_path(path).value or path

    def _remembered(self, real: str) -> Contents:
        identity = self.identity(real)
        if not identity:
            return Contents(unreadable="not there")
        known = from_record(self.memory.recall(_CONTENTS, real, identity))
        if known is not None:
            return known
        contents = read_file(self.host.local_path(real) or "")
        self.memory.keep(_CONTENTS, real, identity, to_record(contents))
        return contents
