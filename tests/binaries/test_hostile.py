"""Damaged and foreign files: each ends as facts or as "unreadable: why", soon and small."""

from __future__ import annotations

import io
import json
import os
import struct
import subprocess
import sys
import time
import tracemalloc
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from doctor.binaries.contents import Contents, read_file, read_stream
from doctor.binaries.elf import Elf
from doctor.binaries.fatbin import MAGIC
from doctor.binaries.scan import scan
from doctor.binaries.sources import BinaryUnreadable, open_file
from tests.binaries.examined import examine
from tests.binaries.mutants import SAMPLES, mutants
from tests.binaries.written import Library

# A second on an idle machine, as the reports of fuzzing tell; what does not end takes minutes.
LIMIT_S, LIMIT_BYTES = 5.0, 256 << 20


def _slowest(count: int, seed: int, folder: Path) -> float:
    worst = 0.0
    for data in mutants(count, seed, folder):
        start = time.process_time()
        with suppress(BinaryUnreadable):
            examine(data, folder / "mutant.so")
        worst = max(worst, time.process_time() - start)
    return worst


def test_damaged_files(tmp_path: Path) -> None:
    tracemalloc.start()
    try:
        worst = _slowest(200, seed=20261129, folder=tmp_path)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert worst < LIMIT_S * 5, "traced memory slows everything"
    assert peak < LIMIT_BYTES


@pytest.mark.heavy
@pytest.mark.parametrize("seed", range(10))
def test_ten_thousand_damaged_files(tmp_path: Path, seed: int) -> None:
    code = (
        "import json, resource, sys; from pathlib import Path;"
        "from tests.binaries.test_hostile import _slowest;"
        "worst = _slowest(1000, int(sys.argv[1]), Path(sys.argv[2]));"
        "print(json.dumps([worst, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10]))"
    )
    root = Path(__file__).parent.parent.parent
    done = subprocess.run(
        [sys.executable, "-c", code, str(seed), str(tmp_path)],
        capture_output=True,
        text=True,
        check=True,
        cwd=root,
    )
    worst, memory = json.loads(done.stdout)
    assert worst < LIMIT_S
    assert memory < LIMIT_BYTES


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "empty"),
        (b"\x7fELF", "truncated"),
        (b"MZ" + bytes(200), "Windows"),
        (b"\xcf\xfa\xed\xfe" + bytes(200), "Mach-O"),
        (b"\x7fELF\x01\x01\x01" + bytes(200), "32-bit"),
        (b"\x7fELF\x02\x02\x01" + bytes(200), "big-endian"),
        (b"#!/bin/sh\n" + bytes(200), "not an ELF"),
    ],
)
def test_foreign_files(data: bytes, why: str, tmp_path: Path) -> None:
    path = tmp_path / "x.so"
    path.write_bytes(data)
    assert why in read_file(str(path)).unreadable
    assert why in read_stream(lambda: io.BytesIO(data), len(data)).unreadable


def test_pipes_folders_and_devices_are_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.so")
    for path in (tmp_path / "pipe.so", tmp_path, Path("/dev/zero"), tmp_path / "none"):
        assert read_file(str(path)).unreadable
    assert read_file("a\0b").unreadable


@pytest.mark.parametrize("unit", [MAGIC, MAGIC + b"\1\0\x10\0" + bytes(8), b"CCOB" + bytes(4092)])
def test_floods_of_headers_end(unit: bytes, tmp_path: Path) -> None:
    data = unit * ((24 << 20) // len(unit))
    path = tmp_path / "flood.fatbin"
    path.write_bytes(MAGIC + data)
    start = time.process_time()
    read_file(str(path), thorough=True)
    assert time.process_time() - start < LIMIT_S


def test_a_flood_of_entries_ends(tmp_path: Path) -> None:
    entry = struct.pack("<HHIQIIHHIIIQQQ", 2, 0x101, 64, 0, 0, 0, 0, 0, 80, 0, 0, 0, 0, 0)
    body = entry * 600_000
    path = tmp_path / "flood.so"
    section = MAGIC + struct.pack("<HHQ", 1, 16, len(body)) + body
    Library(sections={".nv_fatbin": (1, section)}).write(path)
    start = time.process_time()
    assert "more fat binary entries" in read_file(str(path)).unreadable
    assert time.process_time() - start < LIMIT_S


def test_a_file_cut_short_while_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "x.so"
    path.write_bytes((SAMPLES / "plain.so").read_bytes())
    with open_file(str(path)) as source:
        file = Elf(source)
        os.truncate(path, 70)
        with pytest.raises(BinaryUnreadable, match="truncated"):
            source.read(15_000, 8)
        with pytest.raises(BinaryUnreadable, match="truncated"):
            list(file.sections)


@given(st.binary(max_size=600))
def test_any_bytes_behind_an_elf_magic(tail: bytes) -> None:
    data = b"\x7fELF\x02\x01\x01" + tail
    contents = read_stream(lambda: io.BytesIO(data), len(data))
    assert isinstance(contents, Contents)


@given(st.binary(max_size=400))
def test_any_bytes_as_a_wheel(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "any.whl"
    path.write_bytes(b"PK\3\4" + data)
    try:
        scan(str(path))
    except BinaryUnreadable:
        return
