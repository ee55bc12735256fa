"""The boundary to a machine: everything that a probe may ask of it.

`LocalHost` asks this machine, `RootedHost` a mounted tree, `RecordedHost` a recording.
No method raises for a broken host: each answers with a `Reading`. What a host cannot
know (a mounted tree has no running kernel) is `not-stated`, never `not-there`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional, Protocol

from doctor.facts import Reading

TEXT_LIMIT = 4 << 20


@dataclass(frozen=True)
class CommandResult:
    """What a command answered; output decoded with replacement, cut at the text limit."""

    returncode: int
    stdout: str
    stderr: str


@dataclass(frozen=True)
class FileStat:
    """What identifies a file's content: device, inode, size, mtime and ctime in ns; mode, owner."""

    device: int
    inode: int
    size: int
    mtime_ns: int
    ctime_ns: int
    mode: int
    uid: int
    gid: int


@dataclass(frozen=True)
class DiskUsage:
    """Size and free space (for an ordinary user) of a file system, in MiB."""

    total_mib: int
    free_mib: int


class Host(Protocol):
    """A machine as seen by probes. Paths are absolute paths of that machine."""

    def read_text(self, path: str, limit: int = TEXT_LIMIT) -> Reading[str]:
        """Text of a regular file, at most `limit` bytes of it; /proc and /sys files included.

        Links are followed (within the root of a `RootedHost`). A FIFO, device or socket
        is `not-readable`.
        """

    def list_dir(self, path: str) -> Reading[tuple[str, ...]]:
        """Sorted names in a folder."""

    def real_path(self, path: str) -> Reading[str]:
        """The path with all links resolved, if it exists."""

    def link(self, path: str) -> Reading[str]:
        """Where a link leads, as it is written; "" for what is there and is no link."""

    def stat(self, path: str) -> Reading[FileStat]:
        """Stat of the file that the path leads to."""

    def disk(self, path: str) -> Reading[DiskUsage]:
        """Size of the file system that holds `path`."""

    def run(self, argv: tuple[str, ...], timeout_s: float = 10.0) -> Reading[CommandResult]:
        """Run a program of the host's own search path, without a shell, with a deadline.

        `not-there` if it is not installed, `timed-out` if it had to be abandoned; always
        `not-stated` on a `RootedHost`, where nothing runs.
        """

    def get(self, socket: str, target: str, timeout_s: float = 5.0) -> Reading[str]:
        """Body of an HTTP GET over a unix socket, such as ("/run/docker.sock", "/info")."""

    def nvml(self, timeout_s: float) -> Reading[dict[str, object]]:
        """Raw NVML answers as `probes.nvml` writes them; read in a child with a deadline."""

    def dcmi(self, folders: tuple[str, ...], timeout_s: float) -> Reading[dict[str, object]]:
        """Raw DCMI answers as `probes.dcmi` writes them; its library lies in one of `folders`."""

    def environ(self) -> dict[str, str]:
        """Environment variables of the allow-list."""

    def local_path(self, path: str) -> Optional[str]:
        """Path on this machine of a file of the host, for readers of binaries, or None."""
