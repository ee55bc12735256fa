"""Notes of vendors: forward compatibility, processor level; HIP bundles; Ascend chips."""

from __future__ import annotations

import io
import json
import struct
import zlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from doctor.binaries import notes, offload
from doctor.binaries.ascend import socs_of_paths
from doctor.binaries.contents import read_file, read_stream
from doctor.binaries.elf import Elf
from doctor.binaries.notes import ForwardCompatibility
from doctor.binaries.packing import unpack_lz4, unpack_zstd
from doctor.binaries.sources import BinaryUnreadable, BytesSource
from doctor.facts import Version
from tests.binaries.written import Library, note

NOTE = 7
# What readelf shows of libcuda.so.590.44.01 of cuda-compat 13.1.
COMPAT = {
    "Format": 1,
    "CUDA Version": "13.1",
    "Driver": [535, 550, 570, 575, 580, 590],
    "Device": [1, 2, 7, 8, 9, 10, 11, 12, 13, 14],
}


def _compat(body: bytes, owner: bytes = b"NVIDIA Corporation") -> ForwardCompatibility | None:
    section = {".note.cuda.fwd_compatibility": (NOTE, note(owner, 1, body))}
    data = _bytes(Library(soname="libcuda.so.1", sections=section))
    return notes.forward_compatibility(Elf(BytesSource(data)))


def _bytes(library: Library) -> bytes:
    folder = Path("/dev/shm") if Path("/dev/shm").is_dir() else Path("/tmp")
    path = library.write(folder / "doctor-test-written.so")
    try:
        return path.read_bytes()
    finally:
        path.unlink()


def test_forward_compatibility() -> None:
    assert _compat(json.dumps(COMPAT).encode() + b"\0") == ForwardCompatibility(
        Version("13.1"), (535, 550, 570, 575, 580, 590), (1, 2, 7, 8, 9, 10, 11, 12, 13, 14)
    )


def test_a_note_with_a_version_alone() -> None:
    """The one for Orin has neither branches nor devices."""
    assert _compat(b'{"format": 1, "cuda version": "13.2"}') == ForwardCompatibility(
        Version("13.2")
    )


@pytest.mark.parametrize("body", [b"", b"{", b"[1]", b'"13.1"', b"[" * 50_000])
def test_a_note_of_nonsense_is_none(body: bytes) -> None:
    assert _compat(body) is None


def test_a_note_of_someone_else_is_none() -> None:
    assert _compat(json.dumps(COMPAT).encode(), b"Somebody Else") is None


@given(st.text())
def test_any_text_in_a_note(text: str) -> None:
    notes.parse_compatibility(text)


@given(st.recursive(st.none() | st.integers() | st.text(), lambda c: st.lists(c) | st.dictionaries(
    st.sampled_from(["Driver", "device", "CUDA Version"]), c)))  # fmt: skip
def test_any_json_in_a_note(value: object) -> None:
    found = notes.parse_compatibility(json.dumps(value))
    assert (
        found is None or found.branches is None or all(isinstance(b, int) for b in found.branches)
    )


def _bundle(*targets: str) -> bytes:
    rows = b""
    for target in targets:
        name = target.encode()
        rows += struct.pack("<QQQ", 4096, 64, len(name)) + name
    return (offload.PLAIN + struct.pack("<Q", len(targets)) + rows).ljust(4160, b"\1")


HOST, GPU = "host-x86_64-unknown-linux-gnu-", "hipv4-amdgcn-amd-amdhsa--"


def _packed(version: int, method: int, body: bytes, plain: int) -> bytes:
    sizes = {1: "<I", 2: "<II", 3: "<QQ"}[version]
    header = {1: 20, 2: 24, 3: 32}[version]
    numbers = (plain,) if version == 1 else (header + len(body), plain)
    head = b"CCOB" + struct.pack("<HH", version, method) + struct.pack(sizes, *numbers)
    return head + b"\0" * 8 + body


def _hip(section: bytes) -> tuple[str, ...]:
    data = _bytes(Library(sections={".hip_fatbin": (1, section)}))
    found = read_stream(lambda: io.BytesIO(data), len(data))
    assert found.unreadable == ""
    return found.gfx


def test_targets_of_plain_bundles_page_by_page(tmp_path: Path) -> None:
    first = _bundle(HOST, f"{GPU}gfx942:sramecc+:xnack-").ljust(8192, b"\0")
    section = first + _bundle(HOST, f"{GPU}gfx1100", f"{GPU}gfx9-4-generic")
    assert _hip(section) == ("gfx1100", "gfx9-4-generic", "gfx942:sramecc+:xnack-")
    path = Library(sections={".hip_fatbin": (1, section)}).write(tmp_path / "x.so")
    assert read_file(str(path)).gfx == _hip(section)


@pytest.mark.parametrize("version", [1, 2, 3])
def test_targets_of_a_compressed_bundle(version: int) -> None:
    plain = _bundle(HOST, f"{GPU}gfx90a")
    assert _hip(_packed(version, 0, zlib.compress(plain), len(plain))) == ("gfx90a",)


def test_targets_of_a_bundle_packed_with_zstd() -> None:
    zstandard = pytest.importorskip("zstandard")
    plain = _bundle(HOST, f"{GPU}gfx1201")
    assert _hip(_packed(3, 1, zstandard.compress(plain), len(plain))) == ("gfx1201",)


@given(st.binary(max_size=200), st.sampled_from([offload.PLAIN, offload.PACKED]))
def test_any_bytes_as_a_bundle(tail: bytes, magic: bytes) -> None:
    try:
        offload.parse_bundle(magic + tail)
    except BinaryUnreadable:
        return


@given(st.binary(max_size=400), st.integers(0, 5000))
def test_any_bytes_as_lz4(data: bytes, size: int) -> None:
    try:
        assert len(unpack_lz4(data, size)) <= size + len(data)
    except BinaryUnreadable:
        return


@given(st.binary(max_size=100))
def test_any_bytes_as_zstd(data: bytes) -> None:
    try:
        unpack_zstd(data, 1000)
    except BinaryUnreadable:
        return


def test_ascend_chips_by_section_and_by_folder(tmp_path: Path) -> None:
    sections = {".ascend.kernel.ascend910b1.vllm_ascend_kernels": (1, b"x"), ".text": (1, b"x")}
    path = Library(sections=sections).write(tmp_path / "libkernels.so")
    assert read_file(str(path)).soc == ("ascend910b1",)
    folder = "op/vendors/x/op_impl/ai_core/tbe/kernel/ascend910_93/add/Add.o"
    assert socs_of_paths([folder, "other/kernel/ascend1/x.o"]) == ("ascend910_93",)


@pytest.mark.parametrize(("bits", "levels"), [(1, ()), (7, ("x86-64-v2", "x86-64-v3"))])
def test_processor_levels(bits: int, levels: tuple[str, ...], tmp_path: Path) -> None:
    path = Library(isa_needed=bits).write(tmp_path / "x.so")
    assert read_file(str(path)).isa == levels
