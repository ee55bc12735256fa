"""Everything that is read of one file, and its form as a fact."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import IO, Optional

from doctor.binaries import ascend, fatbin, gpucode, notes
from doctor.binaries.elf import Elf
from doctor.binaries.gpucode import GpuCode
from doctor.binaries.linkage import Linkage, read_linkage
from doctor.binaries.sources import (
    BinaryUnreadable,
    Source,
    SourceCursor,
    StreamSource,
    open_file,
)
from doctor.facts import Binary, Kernels, Version

_RUNTIMES = re.compile(r"lib(?:cudart|cublas|cublasLt|nvrtc)\.so\.(\d{1,3})(?:\.\d+)*")
_LOOSE_CODE = (fatbin.MAGIC, b"!<arch>\n")


@dataclass(frozen=True)
class Contents:
    """One file as read; `unreadable` says why nothing could be, and then the rest is empty.

    `glibc` and `glibcxx` are the newest symbol versions it needs, `compression` names
    how GPU code is packed, `sealed` says why some of it stayed closed.
    """

    linkage: Linkage = Linkage()
    glibc: Optional[Version] = None
    glibcxx: Optional[Version] = None
    kernels: tuple[Kernels, ...] = ()
    gfx: tuple[str, ...] = ()
    soc: tuple[str, ...] = ()
    isa: tuple[str, ...] = ()
    compression: tuple[str, ...] = ()
    toolkit: Optional[Version] = None
    sealed: str = ""
    unreadable: str = ""

    def binary(self, path: str, package: str = "") -> Binary:
        """The fact, without what only the loader's simulation can add."""
        return Binary(
            path=path,
            package=package,
            machine=self.linkage.machine,
            kernels=self.kernels,
            gfx=self.gfx,
            soc=self.soc,
            isa=self.isa,
            needs=self.linkage.needed,
            glibc=self.glibc,
            glibcxx=self.glibcxx,
            cuda=_cuda_runtime(self.linkage.needed),
            toolkit=self.toolkit,
            build_id=self.linkage.build_id,
            unreadable=self.unreadable,
        )


def read_file(path: str, *, thorough: bool = False) -> Contents:
    """Read a file of this machine; never raises.

    `thorough` also searches files that keep GPU code outside of the known sections and
    unpacks one cubin for the toolkit's version: right for one file, slow for hundreds.
    """
    try:
        with open_file(path) as source:
            return read_source(source, thorough=thorough)
    except (BinaryUnreadable, MemoryError, OSError) as error:
        return Contents(unreadable=str(error) or type(error).__name__)


def read_source(source: Source, *, thorough: bool = False) -> Contents:
    """Read bytes that can be read at any place; raise `BinaryUnreadable`."""
    if source.read(0, min(8, source.size)).startswith(_LOOSE_CODE):
        return _contents(Linkage(), gpucode.search(SourceCursor(source), source.size), thorough)
    file = Elf(source)
    code = gpucode.read_sections(file)
    if thorough and not code.cuda.containers and not code.hip.count:
        code = gpucode.search(SourceCursor(source), source.size)
    return _with_elf(file, code, thorough)


def read_stream(opener: Callable[[], IO[bytes]], size: int) -> Contents:
    """Read a forward-only stream of `size` bytes in one pass; never raises.

    `opener` may be called again, and may raise `BinaryUnreadable` if that cannot be.
    """
    source = None
    try:
        source = StreamSource(opener, size)
        return _read_forward(source)
    except (BinaryUnreadable, MemoryError, OSError) as error:
        return Contents(unreadable=str(error) or type(error).__name__)
    finally:
        if source is not None:
            source.close()


def _read_forward(source: StreamSource) -> Contents:
    if source.peek(8).startswith(_LOOSE_CODE):
        return _contents(Linkage(), gpucode.search(source, source.size), thorough=True)
    file = Elf(source)
    for offset, length in file.late_tables():
        source.keep(offset, length)
    source.rewind()
    code = gpucode.search(source, source.size)
    return _with_elf(file, code, thorough=True)


def _with_elf(file: Elf, code: GpuCode, thorough: bool) -> Contents:
    found = _contents(read_linkage(file), code, thorough)
    return replace(found, soc=ascend.socs(file), isa=notes.processor_levels(file))


def _contents(linkage: Linkage, code: GpuCode, thorough: bool) -> Contents:
    sample = code.cuda.sample if thorough else None
    return Contents(
        linkage=linkage,
        glibc=linkage.floor("GLIBC"),
        glibcxx=linkage.floor("GLIBCXX"),
        kernels=code.cuda.kernels(),
        gfx=tuple(sorted(code.hip.targets)),
        compression=tuple(sorted(code.cuda.compression)),
        toolkit=notes.toolkit_of(sample) if sample else None,
        sealed=code.hip.sealed,
    )


def _cuda_runtime(needed: tuple[str, ...]) -> Optional[Version]:
    """The CUDA major that a library is linked to: the number in libcudart's name, and its kin's."""
    for name in needed:
        match = _RUNTIMES.fullmatch(name)
        if match:
            return Version(f"{match[1]}.*")
    return None
