"""All that is ever asked of a library, for tests with damaged ones."""

from __future__ import annotations

import io
from pathlib import Path

from doctor.binaries.abi import wanted_symbols
from doctor.binaries.contents import Contents, read_file, read_stream
from doctor.binaries.elf import Elf
from doctor.binaries.loader import Loader, SearchPath
from doctor.binaries.sources import BytesSource
from doctor.binaries.symbols import Symbols
from doctor.binaries.tree import LocalTree


def examine(data: bytes, path: Path) -> object:
    """Ask everything of a file; raises BinaryUnreadable, anything else is a fault."""
    path.write_bytes(data)
    for contents in (
        read_file(str(path), thorough=True),
        read_stream(lambda: io.BytesIO(data), len(data)),
    ):
        assert isinstance(contents, Contents)
        assert not contents.unreadable or not contents.kernels
    Loader(LocalTree(), SearchPath()).open(str(path))
    wanted_symbols(str(path))
    return Symbols(Elf(BytesSource(data))).defines("cuOther1")
