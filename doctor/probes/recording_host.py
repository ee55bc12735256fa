"""A host that keeps every answer it gives, for what is written down of it."""

from __future__ import annotations

from typing import Optional

from doctor.facts import Reading
from doctor.probes.host import TEXT_LIMIT, CommandResult, DiskUsage, FileStat, Host


class RecordingHost:
    """Passes every question on to another host and keeps the answers."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self.texts: dict[str, Reading[str]] = {}
        self.folders: dict[str, Reading[tuple[str, ...]]] = {}
        self.links: dict[str, Reading[str]] = {}
        self.targets: dict[str, Reading[str]] = {}
        self.stats: dict[str, Reading[FileStat]] = {}
        self.disks: dict[str, Reading[DiskUsage]] = {}
        self.commands: dict[tuple[str, ...], Reading[CommandResult]] = {}
        self.sockets: dict[tuple[str, str], Reading[str]] = {}
        self.drivers: dict[str, Reading[dict[str, object]]] = {}

    def read_text(self, path: str, limit: int = TEXT_LIMIT) -> Reading[str]:
        """Pass on and keep; of two readings the longer one."""
        answer = self.host.read_text(path, limit)
        known = self.texts.get(path)
        if known is None or len(answer.value or "") > len(known.value or ""):
            self.texts[path] = answer
        return answer

    def list_dir(self, path: str) -> Reading[tuple[str, ...]]:
        """Pass on and keep."""
        return self.folders.setdefault(path, self.host.list_dir(path))

    def real_path(self, path: str) -> Reading[str]:
        """Pass on and keep."""
        return self.links.setdefault(path, self.host.real_path(path))

    def link(self, path: str) -> Reading[str]:
        """Pass on and keep."""
        return self.targets.setdefault(path, self.host.link(path))

    def stat(self, path: str) -> Reading[FileStat]:
        """Pass on and keep."""
        return self.stats.setdefault(path, self.host.stat(path))

    def disk(self, path: str) -> Reading[DiskUsage]:
        """Pass on and keep."""
        return self.disks.setdefault(path, self.host.disk(path))

    def run(self, argv: tuple[str, ...], timeout_s: float = 10.0) -> Reading[CommandResult]:
        """Pass on and keep."""
        return self.commands.setdefault(argv, self.host.run(argv, timeout_s))

    def get(self, socket: str, target: str, timeout_s: float = 5.0) -> Reading[str]:
        """Pass on and keep."""
        key = (socket, target)
        return self.sockets.setdefault(key, self.host.get(socket, target, timeout_s))

    def nvml(self, timeout_s: float) -> Reading[dict[str, object]]:
        """Pass on and keep."""
        return self.drivers.setdefault("nvml.json", self.host.nvml(timeout_s))

    def dcmi(self, folders: tuple[str, ...], timeout_s: float) -> Reading[dict[str, object]]:
        """Pass on and keep."""
        return self.drivers.setdefault("dcmi.json", self.host.dcmi(folders, timeout_s))

    def environ(self) -> dict[str, str]:
        """Pass on."""
        return self.host.environ()

    def local_path(self, path: str) -> Optional[str]:
        """Pass on; the content of binaries is not recorded."""
        return self.host.local_path(path)
