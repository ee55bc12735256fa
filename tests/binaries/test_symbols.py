"""Symbols that are needed and symbols that are there, by both kinds of hash table."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest
from elftools.elf.elffile import ELFFile
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from doctor.binaries.abi import Providers, family_of, lost_symbols, wanted_symbols
from doctor.binaries.elf import Elf
from doctor.binaries.sources import BytesSource, open_file
from doctor.binaries.symbols import Symbols
from tests.binaries.written import Library

_NAME = st.text(alphabet="abcdefgh_", min_size=1, max_size=12)
CHECK = "_ZN3c104cuda29c10_cuda_check_implementationEiPKcS2_ib"
CREATE = "__nvJitLinkCreate_12_4"


@given(st.sets(_NAME, min_size=1, max_size=30), st.sets(_NAME, max_size=30), st.booleans())
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_a_name_is_defined_exactly_if_it_was_written(
    tmp_path_factory: pytest.TempPathFactory, names: set[str], others: set[str], sysv: bool
) -> None:
    path = tmp_path_factory.mktemp("symbols") / "x.so"
    absent = others - names
    library = Library(defines=tuple(names), undefined=tuple(sorted(absent)), sysv=sysv)
    symbols = Symbols(Elf(BytesSource(library.write(path).read_bytes())))
    assert all(symbols.defines(name) for name in names)
    assert not any(symbols.defines(name) for name in absent)
    assert set(symbols.undefined((b"",))) == absent


def test_symbols_of_real_libraries_are_those_of_pyelftools() -> None:
    some = [p for p in sorted(Path(sys.prefix).rglob("*.so")) if not p.is_symlink()][::12]
    for path in some:
        with path.open("rb") as file:
            table: Any = ELFFile(file).get_section_by_name(".dynsym")
            rows = [(s.name, s.entry) for s in table.iter_symbols() if s.name]
        undefined = {
            n for n, e in rows if e.st_shndx == "SHN_UNDEF" and e.st_info.bind != "STB_WEAK"
        }
        defined = [n for n, e in rows if e.st_shndx != "SHN_UNDEF"][:200]
        with open_file(str(path)) as source:
            symbols = Symbols(Elf(source))
            assert set(symbols.undefined((b"",))) == undefined, path
            assert all(symbols.defines(name) for name in defined), path
            assert not any(symbols.defines(name + "_not") for name in defined), path


@pytest.mark.parametrize(
    ("symbol", "family"),
    [
        (CHECK, "torch"),
        ("_ZNK2at10TensorBase14const_data_ptrIiLi0EEEPKT_v", "torch"),
        ("_ZTVN5torch8autograd4NodeE", "torch"),
        ("aoti_torch_dtype_float8_e8m0fnu", "torch"),
        ("cuTensorMapEncodeTiled", "driver"),
        ("cuFileBufRegister", ""),
        ("cudaMalloc", ""),
        (CREATE, "nvjitlink"),
        ("_ZN3atb15CreateOperationINS_5infer", "atb"),
        ("_ZN4attn3runEv", ""),
    ],
)
def test_families(symbol: str, family: str) -> None:
    assert family_of(symbol) == family


@pytest.fixture
def extension(tmp_path: Path) -> str:
    library = Library(
        undefined=(CHECK, "cuGreenCtxDestroy", CREATE, "malloc"), weak=("_ZN2at5maybeEv",)
    )
    return str(library.write(tmp_path / "ext.so"))


def _missing(extension: str, folder: Path, absent: tuple[str, ...] = (), **homes: str) -> set[str]:
    libraries = []
    for name, symbol in homes.items():
        soname = {"torch": "libtorch_cpu.so", "cuda": "libcuda.so.1", "other": "libother.so"}[name]
        libraries.append((soname, str(Library(defines=(symbol,)).write(folder / soname))))
    providers = Providers(libraries)
    try:
        return set(providers.missing(wanted_symbols(extension), frozenset(absent)))
    finally:
        providers.close()


def test_weak_symbols_and_strangers_never_count(extension: str) -> None:
    assert set(wanted_symbols(extension)) == {CHECK, "cuGreenCtxDestroy", CREATE}


def test_missing_where_the_home_of_the_family_lacks_it(extension: str, tmp_path: Path) -> None:
    assert _missing(extension, tmp_path, torch="_ZN3c105otherEv") == {CHECK}
    assert _missing(extension, tmp_path, torch=CHECK, cuda="cuInit") == {"cuGreenCtxDestroy"}


def test_any_library_may_define_it(extension: str, tmp_path: Path) -> None:
    assert _missing(extension, tmp_path, torch="x", other=CHECK) == set()


def test_without_the_home_nothing_is_said(extension: str, tmp_path: Path) -> None:
    assert _missing(extension, tmp_path, other="x") == set()
    assert _missing(extension, tmp_path, ("libtorch_cuda.so",), torch="x") == set()


def test_an_unreadable_library_may_define_anything(extension: str, tmp_path: Path) -> None:
    broken = tmp_path / "libtorch_cpu.so"
    broken.write_bytes(b"\x7fELF" + os.urandom(8))
    assert Providers([("libtorch_cpu.so", str(broken))]).missing([CHECK]) == ()


def test_symbols_lost_behind_a_shadow(extension: str, tmp_path: Path) -> None:
    old = Library(defines=("__nvJitLinkCreate_12_1",)).write(tmp_path / "old.so")
    new = Library(defines=(CREATE, "malloc")).write(tmp_path / "new.so")
    assert lost_symbols(extension, str(old), str(new)) == (CREATE, "malloc")
    assert lost_symbols(extension, str(new), str(old)) == ()
