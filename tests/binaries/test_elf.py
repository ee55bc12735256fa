"""The loader's view of a file, against pyelftools and against files written for the purpose."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from elftools.elf.elffile import ELFFile

from doctor.binaries.contents import read_file
from doctor.binaries.linkage import Linkage
from doctor.binaries.tree import linkage_of
from tests.binaries.written import Library


def _libraries(folder: Path) -> Iterator[Path]:
    for path in folder.rglob("*.so*"):
        if path.is_file() and not path.is_symlink():
            with path.open("rb") as file:
                if file.read(4) == b"\x7fELF":
                    yield path


def oracle(path: Path) -> Linkage:
    """What pyelftools says of the same file, in our words."""
    with path.open("rb") as file:
        read = ELFFile(file)
        segments: Any = read.iter_segments("PT_DYNAMIC")
        tags = [tag for segment in segments for tag in segment.iter_tags()]
        texts = {tag: [t for t in tags if t.entry.d_tag == f"DT_{tag}"] for tag in _TAGS}
        needs = read.get_section_by_name(".gnu.version_r")
        defined = read.get_section_by_name(".gnu.version_d")
        return Linkage(
            soname="".join(t.soname for t in texts["SONAME"]),
            needed=tuple(t.needed for t in texts["NEEDED"]),
            rpath=tuple(p for t in texts["RPATH"] for p in t.rpath.split(":") if p),
            runpath=tuple(p for t in texts["RUNPATH"] for p in t.runpath.split(":") if p),
            requires=tuple(_needs(needs)) if needs else (),
            provides=tuple(_provides(defined)) if defined else (),
        )


_TAGS = ("SONAME", "NEEDED", "RPATH", "RUNPATH")


def _needs(section: Any) -> Iterator[tuple[str, tuple[str, ...]]]:
    for library, versions in section.iter_versions():
        yield library.name, tuple(v.name for v in versions if not v.entry.vna_flags & 2)


def _provides(section: Any) -> Iterator[str]:
    for version, names in section.iter_versions():
        name = next(iter(list(names))).name
        if not version.entry.vd_flags & 1:
            yield name


def assert_same(path: Path) -> None:
    ours, theirs = linkage_of(str(path)), oracle(path)
    assert ours is not None, path
    for name in ("soname", "needed", "rpath", "runpath", "requires", "provides"):
        assert getattr(ours, name) == getattr(theirs, name), (path, name)


def test_every_library_of_this_environment_reads_as_pyelftools_reads_it() -> None:
    found = list(_libraries(Path(sys.prefix)))
    assert len(found) > 20
    for path in found:
        assert_same(path)


@pytest.mark.heavy
def test_every_library_of_this_system_reads_as_pyelftools_reads_it() -> None:
    folders = (Path("/usr/lib"), Path(sys.base_prefix) / "lib")
    found = [path for folder in folders for path in _libraries(folder)]
    assert len(found) > 200
    for path in found:
        assert_same(path)


@pytest.fixture
def library() -> Library:
    return Library(
        soname="libone.so.1",
        needed=("libtwo.so.2", "libc.so.6"),
        rpath="$ORIGIN/a:/b",
        requires={"libc.so.6": ("GLIBC_2.2.5", "GLIBC_2.17", "GLIBC_2.4"),
                  "libstdc++.so.6": ("GLIBCXX_3.4.9", "GLIBCXX_3.4.30", "CXXABI_1.3")},
        provides=("ONE_1.0", "ONE_1.1"),
        build_id=bytes(range(20)),
    )  # fmt: skip


def test_a_written_library_reads_back(library: Library, tmp_path: Path) -> None:
    path = library.write(tmp_path / "libone.so.1")
    assert linkage_of(str(path)) == Linkage(
        machine="x86_64",
        soname="libone.so.1",
        needed=("libtwo.so.2", "libc.so.6"),
        rpath=("$ORIGIN/a", "/b"),
        requires=tuple(library.requires.items()),
        provides=("ONE_1.0", "ONE_1.1"),
        build_id=bytes(range(20)).hex(),
    )


def test_floors_compare_as_numbers(library: Library, tmp_path: Path) -> None:
    contents = read_file(str(library.write(tmp_path / "libone.so.1")))
    assert (str(contents.glibc), str(contents.glibcxx)) == ("2.17", "3.4.30")


@pytest.mark.parametrize(
    ("needed", "cuda"),
    [("libcudart.so.11.0", "11.*"), ("libcublas.so.12", "12.*"), ("libcurand.so.10", None)],
)
def test_cuda_runtime_is_in_the_name_of_its_library(
    needed: str, cuda: str | None, tmp_path: Path
) -> None:
    path = Library(needed=(needed,)).write(tmp_path / "x.so")
    found = read_file(str(path)).binary(str(path)).cuda
    assert (str(found) if found else None) == cuda


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_machine(machine: str, tmp_path: Path) -> None:
    path = Library(machine=machine).write(tmp_path / "x.so")
    assert read_file(str(path)).binary("x").machine == machine
