"""Which mirror of Debian packages come from: the one that is named, else this machine's own.

What comes from it is held to a hash, so any mirror will do.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from doctor.errors import UsageError

VARIABLE = "DOCTOR_DEBIAN_MIRROR"
_APT = Path("/etc/apt")
# "deb [options] http://host/debian suite ..." or "URIs: http://host/debian".
_ADDRESS = re.compile(
    r"^(?:deb\s+(?:\[[^\]]*\]\s+)?|URIs:\s*)(https?://\S+/debian)/?(?:\s|$)", re.M
)


def debian_mirror(apt: Path = _APT) -> str:
    """The address without a slash at its end; raises UsageError if none is known."""
    named = os.environ.get(VARIABLE, "").rstrip("/")
    if named:
        return named
    for text in _lists(apt):
        match = _ADDRESS.search(text)
        if match:
            return match[1]
    raise UsageError(
        "no mirror of Debian is known here, and the image needs packages from one",
        f"set {VARIABLE} to its address, the one that ends in /debian",
    )


def _lists(apt: Path) -> Iterator[str]:
    found = [apt / "sources.list", *sorted((apt / "sources.list.d").glob("*"))]
    for path in found:
        if path.is_file():
            yield path.read_text(encoding="utf-8", errors="replace")
