"""File systems that do not answer: a dead server behind NFS or FUSE holds for ever who asks it.

A process that waits for one can often not even be ended. So a child asks each mount first; where
it does not come back, nothing below is touched.
"""

from __future__ import annotations

import contextlib
import os
import re
import select
import signal

FIRST_S, NEXT_S = 5.0, 1.0
_TABLE = "/proc/self/mountinfo"
_ESCAPE = re.compile(r"\\([0-7]{3})")
# To look at one would mount it.
_BY_ITSELF = "autofs"
_MOST_LINKS = 40


def parse_mounts(text: str) -> tuple[str, ...]:
    """Mount points of /proc/self/mountinfo, without those that look would mount."""
    found = []
    for line in text.splitlines():
        fields, _, rest = line.partition(" - ")
        words = fields.split()
        if len(words) > 4 and rest.split(" ")[0] != _BY_ITSELF:
            found.append(_ESCAPE.sub(lambda match: chr(int(match[1], 8)), words[4]))
    return tuple(dict.fromkeys(found))


def silent_mounts(table: str = _TABLE) -> tuple[str, ...]:
    """Mounts that do not answer within 5 s (after the first that does not, 1 s each)."""
    try:
        with open(table, encoding="utf-8", errors="surrogateescape") as file:
            mounts = parse_mounts(file.read(1 << 22))
    except OSError:
        return ()
    silent: list[str] = []
    start = 0
    while start < len(mounts):
        start += _answering(mounts[start:], NEXT_S if silent else FIRST_S)
        silent.extend(mounts[start : start + 1])
        start += 1
    return tuple(silent)


def _answering(mounts: tuple[str, ...], patience_s: float) -> int:
    """How many of them answer, one after the other, until one does not."""
    reader, writer = os.pipe()
    try:
        pid = os.fork()
    except OSError:
        os.close(reader)
        os.close(writer)
        return len(mounts)
    if pid == 0:
        _ask(mounts, writer)
    os.close(writer)
    count = 0
    while count < len(mounts) and select.select([reader], [], [], patience_s)[0]:
        said = os.read(reader, 1 << 12)
        if not said:
            count = len(mounts)  # it was ended before it was through: nothing is known
        count += len(said)
    os.close(reader)
    with contextlib.suppress(OSError):
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0 if count >= len(mounts) else os.WNOHANG)
    return min(count, len(mounts))


def _ask(mounts: tuple[str, ...], writer: int) -> None:
    """The child: a byte for each mount that answers.

    One that is held for ever must not hold the terminal and pipes of its parent too.
    """
    try:
        os.dup2(writer, 3)
        nothing = os.open(os.devnull, os.O_RDWR)
        for number in range(3):
            os.dup2(nothing, number)
        os.closerange(4, max(map(int, os.listdir("/proc/self/fd"))) + 1)
        for mount in mounts:
            with contextlib.suppress(OSError, ValueError):
                os.statvfs(mount)
            os.write(3, b".")
    finally:
        os._exit(0)


def silent_part(path: str, silent: tuple[str, ...]) -> str:
    """The mount that a path leads into, links followed, of those that do not answer; or ""."""
    parts, place, links = path.split("/"), "", 0
    while parts:
        part = parts.pop(0)
        if part in ("", "."):
            continue
        place = place.rpartition("/")[0] if part == ".." else f"{place}/{part}"
        if place in silent:
            return place
        with contextlib.suppress(OSError, ValueError):
            target = os.readlink(place or "/")
            links += 1
            if links > _MOST_LINKS:
                return ""
            parts = target.split("/") + parts
            place = "" if target.startswith("/") else place.rpartition("/")[0]
    return ""
