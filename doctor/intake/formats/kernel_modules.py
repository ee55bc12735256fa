"""`lsmod`, `dkms status`, `mokutil --sb-state`: modules, and whether they may be loaded."""

from __future__ import annotations

import re
from itertools import islice

from doctor.facts import UNSTATED, Facts, HostFacts, Reading, seen
from doctor.facts.host import DkmsModule
from doctor.probes.tool_text import reading

_LSMOD = re.compile(r"^Module[ \t]{1,40}Size[ \t]{1,10}Used by", re.MULTILINE)
_MODULE = re.compile(r"^([a-z0-9_]{1,60})[ \t]{1,40}\d{1,12}[ \t]{1,10}-?\d{1,9}", re.MULTILINE)
_DKMS = re.compile(
    r"^([\w-]{1,60})[/,] ?(\d[\w.~+-]{0,40})(?:, ([\w.~+-]{1,80}))?(?:, (?:x86_64|aarch64))?: "
    r"(added|built|installed|broken)\b",
    re.MULTILINE,
)
MARKS = ("Used by", "SecureBoot ", ": installed", ": built", ": added", ": broken")
_SECURE = re.compile(r"^SecureBoot (enabled|disabled)", re.MULTILINE)


def looks_like(text: str) -> bool:
    """Tell by the header of lsmod, a row of dkms, or mokutil's sentence."""
    return any(pattern.search(text) is not None for pattern in (_LSMOD, _DKMS, _SECURE))


def parse(text: str) -> Facts:
    """Loaded modules, built ones, Secure Boot."""
    secure = _SECURE.search(text)
    return Facts(
        host=HostFacts(
            modules=_loaded(text),
            dkms=_built(text),
            secure_boot=reading(secure[1] == "enabled" if secure else None, "mokutil --sb-state"),
        )
    )


def _loaded(text: str) -> Reading[tuple[str, ...]]:
    header = _LSMOD.search(text)
    if header is None:
        return UNSTATED
    rows = islice(_MODULE.finditer(text, header.end()), 5000)
    return seen(tuple(row[1] for row in rows), "lsmod")


def _built(text: str) -> Reading[tuple[DkmsModule, ...]]:
    rows = list(islice(_DKMS.finditer(text), 500))
    found = tuple(DkmsModule(row[1], row[2], row[3] or "", row[4]) for row in rows)
    return seen(found, "dkms status") if found else UNSTATED
