"""An image as a host: probes read its files; nothing of it runs and it has no kernel."""

from __future__ import annotations

import errno
from collections.abc import Mapping

from doctor.binaries.cache import Memory
from doctor.binaries.contents import Contents
from doctor.facts import Missing, Reading, missing, seen
from doctor.images.kept import Keeper
from doctor.images.tar import Kind
from doctor.images.tree import Entry, ImageTree
from doctor.probes import files
from doctor.probes.files import relay
from doctor.probes.host import TEXT_LIMIT, DiskUsage, FileStat
from doctor.probes.host_tree import HostTree
from doctor.probes.rooted import resolve
from doctor.probes.still import StillHost

_TYPES = {Kind.FILE: 0o100000, Kind.FOLDER: 0o040000, Kind.LINK: 0o120000, Kind.OTHER: 0o010000}


class ImageHost(StillHost):
    """The boundary of probes over the merged files of an image; `env` is its configured one."""

    def __init__(self, tree: ImageTree, keeper: Keeper, env: Mapping[str, str]) -> None:
        super().__init__(env)
        self._tree = tree
        self._keeper = keeper

    def read_text(self, path: str, limit: int = TEXT_LIMIT) -> Reading[str]:
        """Text of a file that was kept; of others it is only known that they are there."""
        found = self._find(path)
        if found.value is None:
            return relay(found, path)
        if found.value.kind is not Kind.FILE:
            return missing(Missing.NOT_READABLE, path)
        if not found.value.size:
            return seen("", path)
        if not found.value.path:
            return missing(Missing.NOT_STATED, path)
        return files.read_text(found.value.path, path, limit)

    def list_dir(self, path: str) -> Reading[tuple[str, ...]]:
        """Sorted names in a folder."""
        found = self._find(path)
        if found.value is None:
            return relay(found, path)
        if found.value.children is None:
            return missing(Missing.NOT_THERE, path)
        return seen(tuple(sorted(found.value.children)), path)

    def real_path(self, path: str) -> Reading[str]:
        """The path with all links resolved, if it exists."""
        try:
            real = resolve(path, self._target) or "/"
        except OSError as error:
            return missing(files.why(error), path)
        return seen(real, path) if self._tree.find(real) else missing(Missing.NOT_THERE, path)

    def link(self, path: str) -> Reading[str]:
        """Where a link leads, as it is written."""
        folder, _, name = path.rstrip("/").rpartition("/")
        real = self.real_path(folder or "/")
        entry = self._tree.find(f"{real.value}/{name}") if real.value else None
        return seen(entry.target, path) if entry else missing(Missing.NOT_THERE, path)

    def stat(self, path: str) -> Reading[FileStat]:
        """Kind, size and mode; an image has no inodes that would mean anything here."""
        found = self._find(path)
        if found.value is None:
            return relay(found, path)
        entry = found.value
        mode = _TYPES.get(entry.kind, 0o100000) | entry.mode
        return seen(FileStat(0, id(entry), entry.size, 0, 0, mode, 0, 0), path)

    def disk(self, path: str) -> Reading[DiskUsage]:
        """Not stated: an image is on no file system."""
        return missing(Missing.NOT_STATED, path)

    def local_path(self, path: str) -> str | None:
        """The copy of a file that was kept; for a folder, that of all copies."""
        found = self._find(path).value
        if found is None:
            return None
        return self._keeper.folder if found.kind is Kind.FOLDER else found.path or None

    def contents(self, path: str) -> Contents:
        """What was read of a library as it passed."""
        entry = self._find(path).value
        if entry is not None and isinstance(entry.seen, Contents):
            return entry.seen
        return Contents(unreadable="not there" if entry is None else "not a library")

    def _find(self, path: str) -> Reading[Entry]:
        real = self.real_path(path)
        entry = self._tree.find(real.value) if real.value else None
        return seen(entry, path) if entry else relay(real, path)

    def _target(self, path: str) -> str | None:
        entry = self._tree.find(path)
        if entry is None:
            raise OSError(errno.ENOENT, "not there", path)
        return entry.target if entry.kind is Kind.LINK else None


class ImageLibraries(HostTree):
    """The image's files as the simulated loader sees them."""

    def __init__(self, host: ImageHost) -> None:
        super().__init__(host, Memory("", ""))
        self._image = host

    def real(self, path: str) -> str:
        """The path with its links resolved."""
        return self.host.real_path(path).value or path

    def contents(self, real: str) -> Contents:
        """What was read as the file passed."""
        return self._image.contents(real)

    def identity(self, path: str) -> list[int]:
        """Anything, for what is there: nothing changes while it is looked at."""
        return [1] if self.host.real_path(path).is_known else []
