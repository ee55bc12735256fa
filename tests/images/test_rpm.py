"""Packages of rpm in an image: a database that rpm made, made-up and hostile ones."""

from __future__ import annotations

import shutil
import sqlite3
import struct
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from doctor.images import sbom
from doctor.images.parts import Parts, read_parts
from doctor.images.reading import read_image
from doctor.images.rpm import RpmPackage, parse_header, read_rpms
from tests.images.written import Layer, save, valid_parts
from tests.provision.machine import call, install

TABLE = "CREATE TABLE 'Packages' (hnum INTEGER PRIMARY KEY AUTOINCREMENT,blob BLOB NOT NULL)"
NAME, VERSION, RELEASE, EPOCH, LICENSE, ARCH = 1000, 1001, 1002, 1003, 1014, 1022
BASH: dict[int, str | int] = {
    NAME: "bash",
    VERSION: "5.1.8",
    RELEASE: "9.el9",
    LICENSE: "GPLv3+",
    ARCH: "x86_64",
}
ROCKY = 'ID="rocky"\nVERSION_ID="9.4"\nID_LIKE="rhel centos fedora"\n'
PLACES = ("var/lib/rpm", "usr/lib/sysimage/rpm")


def header(values: Mapping[int, str | int]) -> bytes:
    """A header as the database holds it: an index of tags, then what they say."""
    index, store = b"", b""
    for tag, value in values.items():
        kind = 4 if isinstance(value, int) else 6
        store += b"\0" * (-len(store) % 4)
        index += struct.pack(">IIII", tag, kind, len(store), 1)
        store += value.to_bytes(4, "big") if isinstance(value, int) else value.encode() + b"\0"
    return struct.pack(">II", len(values), len(store)) + index + store


def database(path: Path, *blobs: bytes, table: str = TABLE, more: str = "") -> bytes:
    path.unlink(missing_ok=True)
    connection = sqlite3.connect(path)
    connection.execute(table)
    for blob in blobs:
        connection.execute("INSERT INTO Packages (blob) VALUES (?)", (blob,))
    connection.executescript(more)
    connection.commit()
    connection.close()
    return path.read_bytes()


def parts_of(folder: Path, **files: bytes) -> Parts:
    """The parts of an image with these files in rpm's folder; `__` stands for a dot."""
    layer = Layer().file("etc/os-release", ROCKY)
    for name, data in files.items():
        layer.file(f"{PLACES[0]}/{name.replace('__', '.')}", data)
    with read_image(str(save(folder / "image.tar", layer))) as opened:
        return read_parts(opened)


@pytest.mark.parametrize("place", PLACES)
def test_packages_are_listed_with_all_that_names_them(place: str, tmp_path: Path) -> None:
    data = database(
        tmp_path / "db", header(BASH), header({**BASH, NAME: "shadow-utils", EPOCH: 2}),
        header({NAME: "gpg-pubkey", VERSION: "6d745a60", RELEASE: "60287f36"}),
    )  # fmt: skip
    layer = Layer().file("etc/os-release", ROCKY).file(f"{place}/rpmdb.sqlite", data)
    if place == PLACES[1]:
        layer.link("var/lib/rpm", "../../usr/lib/sysimage/rpm")
    with read_image(str(save(tmp_path / "image.tar", layer))) as opened:
        found = read_parts(opened)
        document = valid_parts(sbom.render(opened.config, found))
    assert [part.purl for part in found.parts] == [
        "pkg:rpm/rocky/bash@5.1.8-9.el9?arch=x86_64&distro=rocky-9.4",
        "pkg:rpm/rocky/shadow-utils@5.1.8-9.el9?arch=x86_64&distro=rocky-9.4&epoch=2",
    ]
    assert found.unread == ()
    assert document["components"][0]["licenses"] == [{"license": {"name": "GPLv3+"}}]
    assert document["compositions"][0]["aggregate"] == "complete"


@pytest.mark.parametrize(("name", "form"), [("Packages", "Berkeley DB"), ("Packages__db", "ndb")])
def test_other_databases_are_named_as_not_read(name: str, form: str, tmp_path: Path) -> None:
    found = parts_of(tmp_path, **{name: b"\0" * 4096})
    assert found.unread == (f"/var/lib/rpm/{name.replace('__', '.')}: {form} is not read",)
    both = parts_of(tmp_path, **{name: b"old", "rpmdb__sqlite": database(tmp_path / "db")})
    assert form in both.unread[0]


def test_what_was_written_last_lies_in_the_journal(tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "db")
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute(TABLE)
    connection.commit()
    connection.execute("INSERT INTO Packages (blob) VALUES (?)", (header(BASH),))
    connection.commit()
    whole, journal = (tmp_path / "db").read_bytes(), (tmp_path / "db-wal").read_bytes()
    connection.close()
    found = parts_of(tmp_path, **{"rpmdb__sqlite": whole, "rpmdb__sqlite-wal": journal})
    assert [part.name for part in found.parts] == ["bash"]
    assert found.unread == ()


ENDLESS = (
    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i AS hnum, i AS blob"
)
BAD_TABLES = {
    "a view that never ends": ("CREATE TABLE Packages (blob)",
                               f"DROP TABLE Packages; CREATE VIEW Packages AS {ENDLESS} FROM n"),
    "a column that is computed": (
        "CREATE TABLE Packages (a, blob AS (hex(zeroblob(1000))))",
        "INSERT INTO Packages (a) VALUES (1)"),
    "no table": ("CREATE TABLE Packages (blob)", "DROP TABLE Packages"),
    "no such column": ("CREATE TABLE Packages (blob)",
                       "ALTER TABLE Packages RENAME COLUMN blob TO a"),
}  # fmt: skip


@pytest.mark.parametrize("what", BAD_TABLES)
def test_a_database_that_is_none_is_named(what: str, tmp_path: Path) -> None:
    table, more = BAD_TABLES[what]
    found = parts_of(tmp_path, rpmdb__sqlite=database(tmp_path / "db", table=table, more=more))
    assert found.parts == ()
    assert len(found.unread) == 1
    assert found.unread[0].startswith("/var/lib/rpm/rpmdb.sqlite: its database")


def test_no_file_and_no_content_are_named(tmp_path: Path) -> None:
    assert "empty" in parts_of(tmp_path, rpmdb__sqlite=b"").unread[0]
    assert "empty" in parts_of(tmp_path, **{"rpmdb.sqlite/x": b"a folder"}).unread[0]
    assert "damaged" in parts_of(tmp_path, rpmdb__sqlite=b"no database" * 400).unread[0]
    assert parts_of(tmp_path, __rpm__lock=b"").unread == ()


BAD_HEADERS = {
    "nothing": b"",
    "half a length": b"\0\0\0",
    "more tags than bytes": struct.pack(">II", 1 << 31, 0),
    "more content than bytes": struct.pack(">II", 0, 1 << 31),
    "content elsewhere": struct.pack(">II", 1, 0) + struct.pack(">IIII", NAME, 6, 1 << 30, 1),
    "no end of a text": header({**BASH, ARCH: "x86_64"})[:-1],
    "no name": header({VERSION: "1", RELEASE: "1"}),
    "a name of two lines": header({**BASH, NAME: "bash\nDRV101"}),
    "a path as a version": header({**BASH, VERSION: "../../x"}),
    "a name without end": header({**BASH, NAME: "a" * 9000}),
}


@pytest.mark.parametrize("what", BAD_HEADERS)
def test_a_damaged_package_is_counted_and_the_others_are_read(what: str, tmp_path: Path) -> None:
    blobs = (header({**BASH, NAME: "first"}), BAD_HEADERS[what], header(BASH))
    found = parts_of(tmp_path, rpmdb__sqlite=database(tmp_path / "db", *blobs))
    assert [part.name for part in found.parts] == ["bash", "first"]
    assert found.unread == ("/var/lib/rpm/rpmdb.sqlite: 1 of its packages are damaged",)


WORDS = st.from_regex(r"[A-Za-z0-9_][A-Za-z0-9_.+~^-]{0,30}", fullmatch=True)


@given(WORDS, WORDS, WORDS, st.integers(0, 2**32 - 1) | st.none(),
       st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=40))  # fmt: skip
def test_what_is_written_is_read(n: str, v: str, r: str, epoch: int | None, spdx: str) -> None:
    values: dict[int, str | int] = {5000: "x", NAME: n, VERSION: v, RELEASE: r, LICENSE: spdx}
    found = parse_header(header(values if epoch is None else {**values, EPOCH: epoch}))
    assert found is not None
    assert (found.name, found.version, found.release) == (n, v, r)
    assert found.epoch == ("" if epoch is None else str(epoch))
    assert found.license.isprintable()


@given(st.binary(max_size=400) | st.lists(st.tuples(st.integers(0, 200), st.integers(0, 255))))
def test_no_blob_raises(damage: bytes | list[tuple[int, int]]) -> None:
    blob = damage if isinstance(damage, bytes) else bytearray(header(BASH))
    for place, byte in damage if not isinstance(damage, bytes) else ():
        blob[place % len(blob)] = byte  # type: ignore[index]
    found = parse_header(bytes(blob))
    assert found is None or (found.name.isprintable() and found.name)


@settings(max_examples=60)
@given(st.lists(st.tuples(st.integers(0, 1 << 20), st.integers(0, 255)), max_size=40))
def test_no_damage_to_a_database_raises(
    tmp_path_factory: pytest.TempPathFactory, damage: list[tuple[int, int]]
) -> None:
    path = tmp_path_factory.getbasetemp() / "damaged"
    data = bytearray(database(path, *[header({**BASH, NAME: f"p{n}"}) for n in range(60)]))
    for place, byte in damage:
        data[place % len(data)] = byte
    path.write_bytes(data)
    found = read_rpms(str(path))
    assert found.fault or found.packages
    assert path.read_bytes() == data, "what is examined stays as it is"


SPEC = """\
Name: {name}
Version: 1.2~rc1
Release: 3.el9
{more}
Summary: made up
License: MIT and (GPLv2+ or BSD)
BuildArch: noarch
%description
made up
%files
"""


@pytest.mark.slow
@pytest.mark.docker
def test_a_database_that_rpm_itself_made(tmp_path: Path) -> None:
    if shutil.which("rpmbuild") is None:
        install("rpm")
    rpm = ("rpm", "--dbpath", str(tmp_path / "db"))
    for name, more in (("one", "Epoch: 2"), ("two", "")):
        (tmp_path / "p.spec").write_text(SPEC.format(name=name, more=more))
        call("rpmbuild", "--quiet", "-bb", "--define", f"_rpmdir {tmp_path}", f"{tmp_path}/p.spec")
        subprocess.run([*rpm, "--justdb", "-i", *map(str, tmp_path.glob(f"noarch/{name}-*"))],
                       check=True, capture_output=True)  # fmt: skip
    form = "%{NAME} %{VERSION} %{RELEASE} %|EPOCH?{%{EPOCH}}:{}| %{ARCH} %{LICENSE}\n"
    said = call(*rpm, "-qa", "--qf", form)
    files = {p.name.replace(".", "__"): p.read_bytes() for p in (tmp_path / "db").iterdir()}
    assert {p.name for p in parts_of(tmp_path, **files).parts} == {"one", "two"}
    listed = read_rpms(str(tmp_path / "db" / "rpmdb.sqlite"))
    assert {shown(package) for package in listed.packages} == set(said.splitlines())


def shown(package: RpmPackage) -> str:
    words = (package.name, package.version, package.release, package.epoch, package.arch)
    return " ".join((*words, package.license))
