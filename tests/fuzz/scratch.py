"""Readers of files, given bytes: each input lies in one file of its process."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path


@lru_cache(maxsize=1)
def folder() -> Path:
    """A folder for all inputs, gone when the process ends."""
    made = tempfile.mkdtemp(prefix="doctor-fuzz-")
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return Path(made)


def through_file(name: str, read: Callable[[Path], object]) -> Callable[[str | bytes], object]:
    """A parser of contents that writes them down and reads the file."""

    def run(content: str | bytes) -> object:
        path = folder() / name
        data = content if isinstance(content, bytes) else content.encode("utf-8", "surrogatepass")
        path.write_bytes(data)
        return read(path)

    return run
