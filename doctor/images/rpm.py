"""Packages of rpm: what a header of its database says, and the database itself, if SQLite keeps it.

The database may come from anybody. SQLite sees a copy of bounded size, may do nothing but read
one plain table, and is ended when that takes more steps than any real one does.
Source: LSB Core 5.0, "Package File Format" (header structure); rpm 4.18 lib/backend/sqlite.c.
"""

from __future__ import annotations

import re
import shutil
import sqlite3
import struct
import tempfile
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

DATABASE, JOURNAL = "rpmdb.sqlite", "rpmdb.sqlite-wal"
# The largest that are read: of a database, and of what one package says of itself.
MOST_BYTES = 256 << 20
_MOST_HEADER = 32 << 20
_MOST_PACKAGES = 50_000
_MOST_ENTRIES = 1 << 16
_STEPS, _MOST_TURNS = 100_000, 1000
_LENGTHS = struct.Struct(">II")
_ENTRY = struct.Struct(">IIII")  # tag, type, offset, count
_INT32, _STRING = 4, 6
_NAME, _VERSION, _RELEASE, _EPOCH, _LICENSE, _ARCH = 1000, 1001, 1002, 1003, 1014, 1022
_WORD = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+~^{}%-]{0,199}")
_PLAIN_TABLE = re.compile(r"CREATE TABLE (?!.*\b(?:GENERATED|AS)\b)", re.IGNORECASE | re.DOTALL)
# Keys for signatures are listed as if they were packages.
_KEY = "gpg-pubkey"
_ALLOWED = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ}


@dataclass(frozen=True)
class RpmPackage:
    """One installed package; `epoch` is "" if none is stated, `arch` "" for any."""

    name: str
    version: str
    release: str
    epoch: str = ""
    arch: str = ""
    license: str = ""


@dataclass(frozen=True)
class RpmList:
    """What a database lists; `fault` says why it is not all, "" if it is."""

    packages: tuple[RpmPackage, ...] = ()
    fault: str = ""


def parse_header(blob: bytes) -> RpmPackage | None:
    """The package of a header as the database holds it; None for one that breaks the format."""
    if len(blob) < _LENGTHS.size:
        return None
    count, length = _LENGTHS.unpack_from(blob)
    start = _LENGTHS.size + count * _ENTRY.size
    if count > _MOST_ENTRIES or start + length > len(blob):
        return None
    index, store = blob[_LENGTHS.size : start], blob[start : start + length]
    stated = {tag: text for tag, text in _values(index, store) if text}
    name, version, release = (stated.get(tag, "") for tag in (_NAME, _VERSION, _RELEASE))
    arch = stated.get(_ARCH, "")
    if not all(_WORD.fullmatch(word) for word in (name, version, release, arch or "any")):
        return None
    spoken = "".join(filter(str.isprintable, stated.get(_LICENSE, "")))
    return RpmPackage(name, version, release, stated.get(_EPOCH, ""), arch, spoken)


def read_rpms(database: str, journal: str | None = None) -> RpmList:
    """Every package of an SQLite database, given as files here that stay as they are.

    What was written last may still lie in its `journal`.
    """
    with tempfile.TemporaryDirectory(prefix="doctor-rpm-", dir=Path(database).parent) as folder:
        copy = Path(folder, DATABASE)
        shutil.copyfile(database, copy)
        if journal:
            shutil.copyfile(journal, Path(folder, JOURNAL))
        try:
            with closing(sqlite3.connect(copy, isolation_level=None)) as connection:
                return _listed(connection)
        except (sqlite3.Error, OverflowError, ValueError) as fault:
            return RpmList(fault=f"its database is damaged ({str(fault)[:100]})")


def _values(index: bytes, store: bytes) -> Iterator[tuple[int, str]]:
    """Texts and numbers by tag, the first of each; what lies outside the store is left out."""
    seen = set()
    for tag, kind, offset, count in _ENTRY.iter_unpack(index):
        if tag in seen or tag not in (_NAME, _VERSION, _RELEASE, _EPOCH, _LICENSE, _ARCH):
            continue
        seen.add(tag)
        if kind == _STRING and offset < len(store):
            end = store.find(b"\0", offset, offset + 4096)
            yield tag, store[offset:end].decode("utf-8", "replace") if end >= 0 else ""
        elif kind == _INT32 and count and offset + 4 <= len(store):
            yield tag, str(int.from_bytes(store[offset : offset + 4], "big"))


def _listed(connection: sqlite3.Connection) -> RpmList:
    _confine(connection)
    row = connection.execute(
        "SELECT sql FROM sqlite_master WHERE type = 'table' AND name = 'Packages'"
    ).fetchone()
    if row is None or not _PLAIN_TABLE.match(str(row[0])):
        return RpmList(fault="its database has no table of packages")
    found, damaged = [], 0
    for (blob,) in connection.execute(
        f"SELECT CASE WHEN length(blob) <= {_MOST_HEADER} THEN blob END FROM Packages"  # noqa: S608
        f" LIMIT {_MOST_PACKAGES + 1}"
    ):
        package = parse_header(blob) if isinstance(blob, bytes) else None
        damaged += package is None
        found += [package] if package and package.name != _KEY else []
    if len(found) + damaged > _MOST_PACKAGES:
        return RpmList(tuple(found), f"it lists more than {_MOST_PACKAGES} packages")
    return RpmList(tuple(found), f"{damaged} of its packages are damaged" if damaged else "")


def _confine(connection: sqlite3.Connection) -> None:
    """Let it read and nothing else, of plain data, for so many steps."""
    for setting in ("trusted_schema = OFF", "cell_size_check = ON", "mmap_size = 0"):
        connection.execute(f"PRAGMA {setting}")
    turns = iter(range(_MOST_TURNS))
    connection.set_progress_handler(lambda: next(turns, None) is None, _STEPS)
    connection.set_authorizer(_permit)


def _permit(action: int, first: str | None, second: str | None, *_: str | None) -> int:
    is_length = action == sqlite3.SQLITE_FUNCTION and second == "length"
    is_ours = action != sqlite3.SQLITE_READ or first in ("sqlite_master", "Packages")
    good = is_length or (action in _ALLOWED and is_ours)
    return sqlite3.SQLITE_OK if good else sqlite3.SQLITE_DENY
