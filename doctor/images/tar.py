"""A tar archive read forward, with bounds on everything that its headers may claim.

`tarfile` keeps every member and reads extended headers of any size into memory; an image
has hundreds of thousands of members and may come from anybody.
Source: POSIX.1-2017 pax, "ustar Interchange Format" and "pax Header"; GNU tar manual, "Basic
Tar Format".
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol

from doctor.errors import UsageError

BLOCK = 512
_CHUNK = 1 << 20
_MAX_HEADER = 1 << 20
_MAX_NAME = 4096
_GNU_SPARSE_AT = 482
_MOST_DIGITS = 20


class Stream(Protocol):
    """Bytes in order; fewer than asked for only at the end."""

    def read(self, length: int) -> bytes:
        """The next bytes."""


class Kind(Enum):
    """What a member is."""

    FILE = "file"
    FOLDER = "folder"
    LINK = "link"
    HARD_LINK = "hard link"
    OTHER = "device, pipe or something unknown"


_KINDS = {
    b"0": Kind.FILE, b"\0": Kind.FILE, b"7": Kind.FILE, b"1": Kind.HARD_LINK, b"2": Kind.LINK,
    b"5": Kind.FOLDER,
}  # fmt: skip


@dataclass
class Member:
    """One member; `name` and `target` are as they are written, `mode` its permission bits."""

    name: str
    kind: Kind
    size: int
    mode: int
    target: str = ""
    uid: int = 0
    gid: int = 0


@dataclass
class _Extended:
    """What headers before a member say of it."""

    values: dict[str, bytes] = field(default_factory=dict)


class TarReader:
    """Members of a stream in turn; what is not read of a member's content is skipped."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._left = 0
        self._padding = 0
        self._common: dict[str, bytes] = {}

    def __iter__(self) -> Iterator[Member]:
        """Every member; raises UsageError for an archive that breaks the format."""
        extended = _Extended()
        while True:
            self._skip()
            header = self._block()
            if header is None:
                return
            kind, size = header[156:157], _number(header[124:136])
            if kind in (b"x", b"g", b"L", b"K"):
                self._extend(extended, kind, size)
                continue
            yield self._member(header, kind, size, extended)
            extended = _Extended()

    def read(self, length: int) -> bytes:
        """The next bytes of the member that was yielded last."""
        wanted = min(length, self._left)
        data = _exactly(self._stream, wanted)
        self._left -= wanted
        return data

    def _member(self, header: bytes, kind: bytes, size: int, extended: _Extended) -> Member:
        values = {**self._common, **extended.values}
        stated = values.get("size", b"")
        if stated.isdigit() and len(stated) <= _MOST_DIGITS:
            size = int(stated)
        if kind == b"S":
            self._skip_sparse_map(header)
        name = values.get("path") or _name(header)
        target = values.get("linkpath") or header[157:257].partition(b"\0")[0]
        if len(name) > _MAX_NAME or len(target) > _MAX_NAME:
            raise UsageError("the archive holds a name that no file system takes")
        found = _KINDS.get(kind, Kind.OTHER)
        if found is Kind.FILE and name.endswith(b"/"):
            found = Kind.FOLDER  # as archives did before folders had a type
        is_sparse = any(key.startswith("GNU.sparse") for key in values)
        has_content = found is Kind.FILE or found is Kind.OTHER
        self._left = size if has_content else 0
        self._padding = -self._left % BLOCK
        return Member(
            _text(name),
            Kind.OTHER if is_sparse else found,
            self._left,
            _number(header[100:108]) & 0o7777,
            _text(target),
            _number(header[108:116]),
            _number(header[116:124]),
        )

    def _extend(self, extended: _Extended, kind: bytes, size: int) -> None:
        if size > _MAX_HEADER:
            raise UsageError("the archive holds a header that is larger than any real one")
        data = _exactly(self._stream, size + -size % BLOCK)[:size]
        if kind == b"g":
            self._common.update(_pax(data))
        elif kind == b"x":
            extended.values.update(_pax(data))
        else:
            name = {b"L": "path", b"K": "linkpath"}[kind]
            extended.values[name] = data.partition(b"\0")[0]

    def _skip_sparse_map(self, header: bytes) -> None:
        more = header[_GNU_SPARSE_AT]
        while more:
            more = _exactly(self._stream, BLOCK)[504]

    def _skip(self) -> None:
        """Pass what is left of the last member."""
        left = self._left + self._padding
        self._left = self._padding = 0
        seek = getattr(self._stream, "skip", None)
        if seek is not None:
            seek(left)
            return
        while left:
            data = _exactly(self._stream, min(left, _CHUNK))
            left -= len(data)

    def _block(self) -> bytes | None:
        """The next header; None at the end."""
        data = self._stream.read(BLOCK)
        if not data or data == bytes(BLOCK):
            return None
        if len(data) < BLOCK:
            raise UsageError("the archive is cut off in a header")
        stated, real = _number(data[148:156]), sum(data[:148]) + sum(data[156:]) + 8 * 32
        if stated != real:
            raise UsageError("this is no tar archive, or it is damaged")
        return data


def _exactly(stream: Stream, length: int) -> bytes:
    data = stream.read(length)
    if len(data) < length:
        raise UsageError("the archive is cut off")
    return data


def _number(field: bytes) -> int:
    """An octal number, or a binary one where the first bit says so."""
    if field[0] & 0x80:
        return int.from_bytes(field[1:], "big") if field[0] == 0x80 else 0
    text = field.strip(b" \0")
    try:
        return int(text, 8) if text else 0
    except ValueError:
        raise UsageError("this is no tar archive, or it is damaged") from None


def _name(header: bytes) -> bytes:
    name, prefix = (part.partition(b"\0")[0] for part in (header[:100], header[345:500]))
    return prefix + b"/" + name if header[257:263] == b"ustar\0" and prefix else name


def _pax(data: bytes) -> dict[str, bytes]:
    """Records of a length, a key and a value; what breaks the form ends the list."""
    found: dict[str, bytes] = {}
    while data:
        digits, space, _ = data[:20].partition(b" ")
        if not space or not digits.isdigit() or not len(digits) < int(digits) <= len(data):
            break
        key, _, value = data[len(digits) + 1 : int(digits)].rstrip(b"\n").partition(b"=")
        found[key.decode("utf-8", "replace")] = value
        data = data[int(digits) :]
    return found


def _text(name: bytes) -> str:
    return name.decode("utf-8", "replace")
