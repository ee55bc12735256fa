"""The simulated loader: ld.so's order, on trees of written libraries and on this machine."""

from __future__ import annotations

import os
import re
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from doctor.binaries.ldcache import parse_cache
from doctor.binaries.loader import Loader, Resolution, SearchPath
from doctor.binaries.tree import LocalTree, read_bytes
from tests.binaries.written import Library


def _open(path: Path, *environment: Path, fallbacks: tuple[str, ...] = ()) -> Resolution:
    search = SearchPath(tuple(map(str, environment)), {}, fallbacks)
    loader = Loader(LocalTree(), search)
    assert loader.open(str(path)) is not None
    return loader.results[os.path.realpath(path)]


def _taken(result: Resolution, name: str) -> str:
    return result.taken[name].path


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """libdep.so.1 in four folders, each another build."""
    for place in ("own", "env", "run", "program"):
        build = place.encode().ljust(8)
        Library(soname="libdep.so.1", build_id=build).write(tmp_path / place / "libdep.so.1")
    return tmp_path


def _user(tree: Path, rpath: str = "", runpath: str = "") -> Path:
    library = Library(needed=("libdep.so.1",), rpath=rpath, runpath=runpath)
    return library.write(tree / "app" / "libuser.so")


def test_rpath_comes_before_the_environment(tree: Path) -> None:
    found = _open(_user(tree, rpath="$ORIGIN/../own"), tree / "env")
    assert _taken(found, "libdep.so.1") == str(tree / "own/libdep.so.1")
    assert found.shadows == []


def test_the_environment_comes_before_runpath_and_is_a_shadow(tree: Path) -> None:
    found = _open(_user(tree, runpath="${ORIGIN}/../run"), tree / "env")
    assert _taken(found, "libdep.so.1") == str(tree / "env/libdep.so.1")
    assert [str(s) for s in found.shadows] == [
        f"libdep.so.1: {tree}/env/libdep.so.1 hides {tree}/run/libdep.so.1"
    ]


def test_rpath_is_void_beside_runpath(tree: Path) -> None:
    found = _open(_user(tree, rpath="$ORIGIN/../own", runpath="$ORIGIN/../run"))
    assert _taken(found, "libdep.so.1") == str(tree / "run/libdep.so.1")


def test_a_copy_of_the_same_build_is_no_shadow(tree: Path) -> None:
    Library(soname="libdep.so.1", build_id=b"run".ljust(8)).write(tree / "env/libdep.so.1")
    assert _open(_user(tree, runpath=f"{tree}/run"), tree / "env").shadows == []


def test_what_the_program_looks_for_itself_comes_last(tree: Path) -> None:
    found = _open(_user(tree), fallbacks=(str(tree / "program"),))
    assert _taken(found, "libdep.so.1") == str(tree / "program/libdep.so.1")
    assert found.unresolved == []


def test_missing_with_another_major_beside(tree: Path) -> None:
    Library().write(tree / "env" / "libdep.so.2.1")
    Library().write(tree / "env" / "libdepend.so.3")
    Library(needed=("libdep.so.9",)).write(tree / "app" / "libuser.so")
    found = _open(tree / "app" / "libuser.so", tree / "env")
    assert found.unresolved == ["libdep.so.9"]
    assert found.other_majors == ["libdep.so.9: libdep.so.1", "libdep.so.9: libdep.so.2.1"]


def test_another_machines_copy_is_passed_over(tree: Path) -> None:
    Library(soname="libdep.so.1", machine="aarch64").write(tree / "env/libdep.so.1")
    found = _open(_user(tree, runpath=f"{tree}/run"), tree / "env")
    assert _taken(found, "libdep.so.1") == str(tree / "run/libdep.so.1")


def test_what_is_loaded_already_is_taken_by_its_name(tree: Path) -> None:
    loader = Loader(LocalTree(), SearchPath((str(tree / "env"),)))
    loader.open(str(tree / "own/libdep.so.1"))
    user = _user(tree, runpath=f"{tree}/run")
    loader.open(str(user))
    assert loader.results[str(user)].taken["libdep.so.1"].path == str(tree / "own/libdep.so.1")


def test_rpath_of_the_program_serves_all(tree: Path) -> None:
    program = Library(rpath=f"{tree}/program").write(tree / "bin/python")
    loader = Loader(LocalTree(), SearchPath())
    loader.start(str(program))
    user = _user(tree)
    loader.open(str(user))
    assert loader.results[str(user)].taken["libdep.so.1"].path == str(tree / "program/libdep.so.1")


def test_versions_that_the_taken_library_lacks(tree: Path) -> None:
    Library(soname="libdep.so.1", provides=("DEP_1", "DEP_2")).write(tree / "run/libdep.so.1")
    wanted = ("DEP_2", "DEP_3")
    user = Library(needed=("libdep.so.1",), requires={"libdep.so.1": wanted}, runpath=f"{tree}/run")
    found = _open(user.write(tree / "app" / "libuser.so"))
    assert found.missing_versions == ["libdep.so.1: DEP_3"]


def test_libraries_that_need_each_other_end(tmp_path: Path) -> None:
    Library(soname="liba.so", needed=("libb.so",), runpath="$ORIGIN").write(tmp_path / "liba.so")
    Library(soname="libb.so", needed=("liba.so",), runpath="$ORIGIN").write(tmp_path / "libb.so")
    assert _open(tmp_path / "liba.so").unresolved == []


def _cache(entries: list[tuple[int, str, str, int]]) -> bytes:
    strings, rows = bytearray(), b""
    base = 48 + 24 * len(entries)
    for flags, name, path, hwcap in entries:
        key = base + len(strings)
        strings += name.encode() + b"\0"
        value = base + len(strings)
        strings += path.encode() + b"\0"
        rows += struct.pack("<iIIIQ", flags, key, value, 0, hwcap)
    head = struct.pack("<20sII16x", b"glibc-ld.so.cache1.1", len(entries), len(strings))
    return head.ljust(48, b"\0") + rows + bytes(strings)


def test_ldconfig_cache_in_both_formats() -> None:
    entries = [
        (0x0303, "libx.so.1", "/a/libx.so.1", 0),
        (0x0303, "libx.so.1", "/b/libx.so.1", 0),
        (0x0303, "libx.so.1", "/v3/libx.so.1", 1 << 62),
        (0x0003, "libx.so.1", "/32/libx.so.1", 0),
    ]
    new = _cache(entries)
    old = b"ld.so-1.7.0".ljust(12, b"\0") + struct.pack("<I", 1) + b"\0" * 12 + b"\0" * 4
    expected = {("x86_64", "libx.so.1"): ("/a/libx.so.1", "/b/libx.so.1")}
    assert parse_cache(new) == expected
    assert parse_cache(old + new) == expected


@pytest.mark.parametrize("data", [b"", b"glibc-ld.so.cache1.1", b"ld.so-1.7.0\0\xff\xff\xff\xff"])
def test_what_is_no_cache_is_empty(data: bytes) -> None:
    assert parse_cache(data) == {}


@pytest.mark.real
def test_cache_of_this_machine_lists_what_ldconfig_lists() -> None:
    listed = subprocess.run(["/sbin/ldconfig", "-p"], capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("no ldconfig here")
    wanted = set(
        re.findall(r"^\t(\S+) \(libc6,(?:x86-64|AArch64)\) => (\S+)$", listed.stdout, re.M)
    )
    cache = parse_cache(read_bytes("/etc/ld.so.cache", 16 << 20))
    assert {(name, path) for (_, name), paths in cache.items() for path in paths} == wanted


@pytest.mark.real
def test_the_same_files_as_ldd_on_this_machine() -> None:
    cache = parse_cache(read_bytes("/etc/ld.so.cache", 16 << 20))
    listed = os.environ.get("LD_LIBRARY_PATH", "").split(":")
    environment = tuple(folder for folder in listed if folder.startswith("/"))
    some = [p for p in sorted(Path(sys.prefix).rglob("*.so")) if not p.is_symlink()][::8]
    assert some
    for path in some:
        answer = subprocess.run(["ldd", str(path)], capture_output=True, text=True, check=False)
        wanted = dict(re.findall(r"^\t(\S+) => (/\S+)", answer.stdout, re.M))
        loader = Loader(LocalTree(), SearchPath(environment, cache))
        loader.open(str(path))
        ours = {n: f.real for r in loader.results.values() for n, f in r.taken.items()}
        assert {n: ours.get(n) for n in wanted} == {
            n: os.path.realpath(p) for n, p in wanted.items()
        }
