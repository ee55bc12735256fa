"""What becomes of a file that rots: everything that may lie in its place."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable
from pathlib import Path

SEED = 20261130


def _text(text: str) -> Callable[[Path], None]:
    return lambda path: _put(path, text.encode())


def _put(path: Path, data: bytes) -> None:
    path.unlink(missing_ok=True)
    path.write_bytes(data)


def _cut(path: Path) -> None:
    data = path.read_bytes()
    _put(path, data[: len(data) * 2 // 3])


def _noise(path: Path) -> None:
    _put(path, random.Random(SEED).randbytes(4096))  # noqa: S311 - any bytes will do


def _mixed(path: Path) -> None:
    """Every tenth byte is another: what a bad block or a wrong copy leaves."""
    rnd, data = random.Random(SEED), bytearray(path.read_bytes())  # noqa: S311
    for place in range(0, len(data), 10):
        data[place] = rnd.randrange(256)
    _put(path, bytes(data))


def _other_types(path: Path) -> None:
    """Still JSON, if it was, and each value of another type."""
    try:
        rows = [json.loads(line) for line in path.read_text().splitlines()]
    except ValueError:
        try:
            rows = [json.loads(path.read_text())]
        except ValueError:
            rows = [{"schema": [1], "packages": "x", "event": {}, "at": 3}]
    changed = [{key: [value] for key, value in row.items()} for row in rows if row]
    _put(path, "".join(f"{json.dumps(row)}\n" for row in changed).encode())


def _folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def _pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def _loop(path: Path) -> None:
    path.unlink()
    path.symlink_to(path.name)


def flipped(data: bytes, number: int) -> bytes:
    """One bit is another."""
    place, bit = divmod(random.Random(f"{SEED}-{number}").randrange(len(data) * 8), 8)  # noqa: S311
    return data[:place] + bytes([data[place] ^ (1 << bit)]) + data[place + 1 :]


DAMAGE: dict[str, Callable[[Path], None]] = {
    "empty": _text(""),
    "cut off": _cut,
    "noise": _noise,
    "every tenth byte": _mixed,
    "other types": _other_types,
    "null": _text("null\n"),
    "a list": _text("[]\n"),
    "a number": _text("7\n"),
    "deep": _text("[" * 200_000),
    "deep objects": _text('{"a":' * 200_000),
    "surrogates": _text('"\\ud800"\n'),
    "a folder": _folder,
    "a pipe": _pipe,
    "a loop of links": _loop,
}
