"""A file system that is slow, or that stops to answer: a FUSE server in plain Python, read-only.

It speaks the protocol of the kernel (include/uapi/linux/fuse.h, version 7.31) on /dev/fuse and
shows a folder of this machine. Each request waits; for paths with `hung` in them, for ever.
"""

from __future__ import annotations

import ctypes
import errno
import os
import signal
import struct
import subprocess
import sys
import time
from contextlib import suppress

_IN = struct.Struct("<IIQQIIII")
_ATTR = struct.Struct("<QQQQQQIIIIIIIIII")
_STATFS = struct.Struct("<QQQQQIIII24x")
LOOKUP, FORGET, GETATTR, READLINK, OPEN, READ, STATFS, RELEASE = 1, 2, 3, 5, 14, 15, 17, 18
GETXATTR, LISTXATTR, INIT, OPENDIR, READDIR, RELEASEDIR = 22, 23, 26, 27, 28, 29
ACCESS, INTERRUPT, BATCH_FORGET = 34, 36, 42
_SILENT = (FORGET, INTERRUPT, BATCH_FORGET)
_MS_RDONLY = 1
LIMIT_S = 60.0


class Server:
    """Answers requests for what lies below `source`."""

    def __init__(self, device: int, source: str, delay_s: float, hung: str) -> None:
        self._device, self._delay_s, self._hung = device, delay_s, hung
        self._paths = {1: source}
        self._numbers = {source: 1}

    def serve(self) -> None:
        """Until the file system is unmounted."""
        while True:
            try:
                request = os.read(self._device, 1 << 17)
            except OSError as fault:
                if fault.errno in (errno.EINTR, errno.ENOENT):
                    continue
                return
            _, code, unique, node, *_ = _IN.unpack_from(request)
            if code in _SILENT:
                continue
            path = self._paths.get(node, "")
            if code != INIT:
                time.sleep(self._delay_s)
                asked = f"{path}/{_text(request)}" if code == LOOKUP else path
                if self._hung and self._hung in f"{asked}/":
                    continue
            try:
                body, status = self._answer(code, path, request[_IN.size :]), 0
            except OSError as fault:
                body, status = b"", -(fault.errno or errno.EIO)
            with suppress(OSError):
                head = struct.pack("<IiQ", 16 + len(body), status, unique)
                os.write(self._device, head + body)

    def _answer(self, code: int, path: str, body: bytes) -> bytes:
        if code == INIT:
            return struct.pack("<IIIIHHIIHHI28x", 7, 31, 1 << 16, 0, 12, 10, 1 << 16, 1, 0, 0, 0)
        if code == LOOKUP:
            found = f"{path}/{os.fsdecode(body.rstrip(bytes(1)))}"
            attributes = self._attributes(found)
            return struct.pack("<QQQQII", self._number(found), 0, 0, 0, 0, 0) + attributes
        if code == GETATTR:
            return struct.pack("<QII", 0, 0, 0) + self._attributes(path)
        if code == READLINK:
            return os.fsencode(os.readlink(path))
        if code in (OPEN, OPENDIR):
            return struct.pack("<QII", 0, 0, 0)
        if code == READ:
            _, offset, size = struct.unpack_from("<QQI", body)
            return _piece(path, offset, size)
        if code == READDIR:
            _, offset, size = struct.unpack_from("<QQI", body)
            return self._entries(path, offset, size)
        if code == STATFS:
            return _STATFS.pack(1 << 20, 1 << 19, 1 << 19, 1 << 10, 1 << 9, 4096, 255, 4096, 0)
        if code in (RELEASE, RELEASEDIR, ACCESS):
            return b""
        raise OSError(errno.ENOSYS, "")

    def _number(self, path: str) -> int:
        number = self._numbers.setdefault(path, len(self._numbers) + 1)
        self._paths[number] = path
        return number

    def _attributes(self, path: str) -> bytes:
        s = os.lstat(path)
        times = (int(s.st_atime), int(s.st_mtime), int(s.st_ctime))
        return _ATTR.pack(self._number(path), s.st_size, s.st_blocks, *times, 0, 0, 0,
                          s.st_mode, s.st_nlink, s.st_uid, s.st_gid, 0, 4096, 0)  # fmt: skip

    def _entries(self, path: str, offset: int, size: int) -> bytes:
        found = b""
        for place, name in enumerate(sorted(os.listdir(path))[offset:], offset + 1):
            raw = os.fsencode(name)
            entry = struct.pack("<QQII", self._number(f"{path}/{name}"), place, len(raw), 0) + raw
            entry += bytes(-len(entry) % 8)
            if len(found) + len(entry) > size:
                break
            found += entry
        return found


def _text(request: bytes) -> str:
    return os.fsdecode(request[_IN.size :].rstrip(bytes(1)))


def _piece(path: str, offset: int, size: int) -> bytes:
    with open(path, "rb") as file:
        return os.pread(file.fileno(), size, offset)


def main(source: str, place: str, delay_s: str, hung: str, *command: str) -> int:
    """Show `source` at `place`, slowly, while a command runs; needs mounts of one's own."""
    libc = ctypes.CDLL(None, use_errno=True)
    device = os.open("/dev/fuse", os.O_RDWR)
    options = f"fd={device},rootmode=40000,user_id=0,group_id=0,allow_other".encode()
    if libc.mount(b"slow", os.fsencode(place), b"fuse.slow", _MS_RDONLY, options):
        raise OSError(ctypes.get_errno(), "cannot mount")
    server = os.fork()
    if not server:
        Server(device, source, float(delay_s), hung).serve()
        os._exit(0)
    os.close(device)
    try:
        return subprocess.run(command, check=False, cwd="/", timeout=LIMIT_S).returncode
    finally:
        # Whoever still waits for an answer gets an error now.
        os.kill(server, signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
