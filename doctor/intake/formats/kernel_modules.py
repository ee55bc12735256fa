"""`lsmod`, `modinfo`, `dkms status`, `mokutil --sb-state`: modules and whether they may load."""

from __future__ import annotations

import re
from itertools import islice

from doctor.facts import (
    UNSTATED,
    Facts,
    HostFacts,
    Missing,
    NvidiaFacts,
    Reading,
    Version,
    missing,
    seen,
)
from doctor.facts.host import DkmsModule
from doctor.probes.tool_text import reading

_LSMOD = re.compile(r"^Module[ \t]{1,40}Size[ \t]{1,10}Used by", re.MULTILINE)
_MODULE = re.compile(r"^([a-z0-9_]{1,60})[ \t]{1,40}\d{1,12}[ \t]{1,10}-?\d{1,9}", re.MULTILINE)
_DKMS = re.compile(
    r"^([\w-]{1,60})[/,] ?(\d[\w.~+-]{0,40})(?:, ([\w.~+-]{1,80}))?(?:, (?:x86_64|aarch64))?: "
    r"(added|built|installed|broken)\b",
    re.MULTILINE,
)
# Rows of lsmod that grep left over, of which nobody says that they are all.
_ROW = re.compile(
    r"^(nvidia(?:_\w{1,20})?|nouveau|amdgpu|drv_\w{1,30})[ \t]{1,40}\d{4,12}[ \t]{1,10}-?\d{1,9}\b",
    re.MULTILINE,
)
_FILE = re.compile(
    r"^filename:[ \t]{1,20}/[^\n]{1,200}/nvidia(?:-current)?\.ko[^\n]{0,10}$", re.MULTILINE
)
_VERSION = re.compile(r"^version:[ \t]{1,20}(\d{3}\.\d{1,3}(?:\.\d{1,3})?)[ \t]*$", re.MULTILINE)
_LICENSE = re.compile(r"^license:[ \t]{1,20}(\S[^\n]{0,40})$", re.MULTILINE)
_NO_MODULE = re.compile(r"modinfo: ERROR: Module nvidia not found", re.IGNORECASE)
MARKS = (
    *("Used by", "SecureBoot ", ": installed", ": built", ": added", ": broken"),
    *("nvidia", "nouveau", "amdgpu", "drv_"),
)
_SECURE = re.compile(r"^SecureBoot (enabled|disabled)", re.MULTILINE)


def looks_like(text: str) -> bool:
    """Tell by the header or a row of lsmod, a row of dkms, what modinfo or mokutil says."""
    patterns = (_LSMOD, _DKMS, _SECURE, _ROW, _FILE, _NO_MODULE)
    return any(pattern.search(text) is not None for pattern in patterns)


def parse(text: str) -> Facts:
    """Loaded modules, built ones, Secure Boot."""
    secure = _SECURE.search(text)
    return Facts(
        host=HostFacts(
            modules=_loaded(text),
            dkms=_built(text),
            secure_boot=reading(secure[1] == "enabled" if secure else None, "mokutil --sb-state"),
        ),
        nvidia=_on_disk(text),
    )


def _on_disk(text: str) -> NvidiaFacts:
    """The module that the next boot would load; NVIDIA licenses its open modules twice."""
    if _NO_MODULE.search(text):
        return NvidiaFacts(module_on_disk=missing(Missing.NOT_THERE, "modinfo nvidia"))
    version = _VERSION.search(text) if _FILE.search(text) else None
    if version is None:
        return NvidiaFacts()
    license_, at = _LICENSE.search(text), "modinfo nvidia"
    flavour = None if license_ is None else "open" if "MIT" in license_[1] else "proprietary"
    return NvidiaFacts(
        module_on_disk=seen(Version(version[1]), at), module_flavour=reading(flavour, at)
    )


def _loaded(text: str) -> Reading[tuple[str, ...]]:
    header = _LSMOD.search(text)
    if header is None:
        left = tuple(row[1] for row in islice(_ROW.finditer(text), 100))
        return seen(left, "lsmod", partial=True) if left else UNSTATED
    rows = islice(_MODULE.finditer(text, header.end()), 5000)
    return seen(tuple(row[1] for row in rows), "lsmod")


def _built(text: str) -> Reading[tuple[DkmsModule, ...]]:
    rows = list(islice(_DKMS.finditer(text), 500))
    found = tuple(DkmsModule(row[1], row[2], row[3] or "", row[4]) for row in rows)
    return seen(found, "dkms status") if found else UNSTATED
