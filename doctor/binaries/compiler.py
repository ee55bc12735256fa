"""The version of a PTX compiler, from the words that it prints about itself."""

from __future__ import annotations

import re
from typing import Optional

from doctor.binaries.sources import CHUNK, BinaryUnreadable, open_file
from doctor.facts import Version

_RELEASE = re.compile(
    rb"Cuda compilation tools, release \d{1,3}\.\d{1,3}, V(\d{1,3}(?:\.\d{1,4}){2})"
)
_OVERLAP = 256
_MAX_SIZE = 256 << 20


def compiler_version(path: str) -> Optional[Version]:
    """The CUDA version of a ptxas or nvcc ("12.9.86"); None if the file does not say."""
    try:
        with open_file(path) as source:
            for start in range(0, min(source.size, _MAX_SIZE), CHUNK):
                data = source.read(start, min(CHUNK + _OVERLAP, source.size - start))
                match = _RELEASE.search(data)
                if match:
                    return Version(match[1].decode("ascii"))
    except BinaryUnreadable:
        return None
    return None
