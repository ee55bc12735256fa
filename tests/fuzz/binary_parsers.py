"""Readers of binaries, archives, images and model files."""

from __future__ import annotations

import io
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from doctor.binaries import ldcache, offload
from doctor.binaries.contents import read_file
from doctor.binaries.elf import parse_notes
from doctor.binaries.scan import scan
from doctor.binaries.sources import BinaryUnreadable
from doctor.errors import DoctorError
from doctor.images.parts import read_parts
from doctor.images.reading import read_image
from doctor.images.tar import TarReader
from doctor.matrix import load_matrix
from doctor.sizing.gguf import read_gguf
from doctor.sizing.gguf_model import model_of_gguf
from doctor.sizing.safetensors import read_safetensors
from tests.binaries.examined import examine
from tests.binaries.mutants import SAMPLES, originals
from tests.fuzz.parser import Parser
from tests.fuzz.scratch import folder, through_file
from tests.images.written import Layer, save, system, torch
from tests.sizing import writing


def _elf(data: bytes) -> object:
    """A library: its own refusal is "unreadable: why"."""
    return examine(data, folder() / "x.so")


def _loose(data: bytes) -> object:
    path = folder() / "x.fatbin"
    path.write_bytes(data)
    return read_file(str(path), thorough=True)


@lru_cache(maxsize=1)
def _libraries() -> Sequence[bytes]:
    return originals(folder())


def _fatbins() -> Sequence[bytes]:
    return [(SAMPLES / "loose.fatbin").read_bytes()]


def _wheel() -> Sequence[bytes]:
    made = []
    for packing in (zipfile.ZIP_DEFLATED, zipfile.ZIP_STORED):
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w", packing) as archive:
            archive.write(SAMPLES / "ptx_only.so", "pkg/ptx_only.so")
            archive.writestr("pkg/x/tbe/kernel/ascend910b/Add.o", b"")
            archive.writestr("x-1.dist-info/METADATA", "Name: x\nVersion: 1\n\nbody\n")
            archive.writestr("x-1.dist-info/WHEEL", "Tag: cp312-abi3-manylinux_2_28_x86_64\n")
        made.append(out.getvalue())
    return made


def _tars() -> Sequence[bytes]:
    made = []
    for mode in ("w", "w:gz"):
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode=mode) as archive:
            archive.add(SAMPLES / "ptx_only.so", "pkg/ptx_only.so")
            info = tarfile.TarInfo("a" * 200)
            info.pax_headers = {"path": "b" * 300, "size": "3"}
            archive.addfile(info)
        made.append(out.getvalue())
    return made


def _members(data: bytes) -> object:
    reader = TarReader(io.BytesIO(data))
    return [(member, reader.read(64)) for member in reader]


def _images() -> Sequence[bytes]:
    base = torch(system(), "2.7.0+cu128", "12.8").distribution("vllm", "0.9.0", "torch==2.7.0")
    base.file("var/lib/dpkg/status", "Package: x\nStatus: install ok installed\nVersion: 1\n\n")
    above = Layer().file("opt/venv/.wh.pyvenv.cfg").link("opt/loop", "/opt/loop")
    path = save(folder() / "saved.tar", base, above, config={"Env": ["A=b"], "Cmd": ["vllm"]})
    return [path.read_bytes()]


def _image(path: Path) -> object:
    from doctor.images.facts import read_facts

    with read_image(str(path)) as opened:
        return read_facts(opened), read_parts(opened)


def _gguf(path: Path) -> object:
    memory = load_matrix().memory
    return model_of_gguf(read_gguf(path, memory), memory)


def _tensors() -> Sequence[bytes]:
    rows = {f"model.layers.{n}.mlp.up_proj.weight": ("BF16", (4, 4), 32) for n in range(3)}
    return [writing.weights(rows)]


def _loader_cache() -> Sequence[bytes]:
    names = b"libcuda.so.1\0/usr/lib/libcuda.so.1\0"
    start = 48 + 24
    entry = struct.pack("<iIIIQ", 0x0303, start, start + 13, 0, 0)
    head = struct.pack("<20sIIB3xI12x", b"glibc-ld.so.cache1.1", 1, len(names), 2, 0)
    new = head + entry + names
    return [new, struct.pack("<12sI", b"ld.so-1.7.0", 0) + new]


def _bundles() -> Sequence[bytes]:
    name = b"hipv4-amdgcn-amd-amdhsa--gfx90a"
    plain = b"__CLANG_OFFLOAD_BUNDLE__" + struct.pack("<QQQQ", 1, 4096, 64, len(name)) + name
    body = zlib.compress(plain + bytes(64))
    packed = b"CCOB" + struct.pack("<HHIIQ", 2, 0, 24 + len(body), len(plain) + 64, 0) + body
    return [plain + bytes(64), packed]


def _notes() -> Sequence[bytes]:
    return [struct.pack("<III", 4, 20, 3) + b"GNU\0" + bytes(20) + struct.pack("<III", 4, 8, 5)]


def _bytes(
    name: str,
    read: Callable[[Any], object],
    seeds: Callable[[], Sequence[bytes]],
    *refusals: type[Exception],
) -> Parser:
    return Parser(name, read, seeds, is_text=False, refusals=(DoctorError, *refusals))


BINARIES = (
    _bytes("ELF", _elf, _libraries, BinaryUnreadable),
    _bytes("loose fat binary", _loose, _fatbins),
    _bytes("wheel", through_file("x.whl", lambda p: scan(str(p))), _wheel, BinaryUnreadable),
    _bytes("tar", through_file("x.tar", lambda p: scan(str(p))), _tars, BinaryUnreadable),
    _bytes("layer", _members, lambda: _tars()[:1]),
    _bytes("image", through_file("image.tar", _image), _images),
    _bytes("GGUF", through_file("x.gguf", _gguf), lambda: [writing.gguf()]),
    _bytes("safetensors", through_file("x.safetensors", read_safetensors), _tensors),
    _bytes("ld.so.cache", ldcache.parse_cache, _loader_cache),
    _bytes("offload bundle", offload.parse_bundle, _bundles, BinaryUnreadable),
    _bytes("ELF notes", lambda data: list(parse_notes(data)), _notes),
)
