"""`free`, and the rows of `df`: free disk, and the one for shared memory."""

from __future__ import annotations

import re
from itertools import islice

from doctor.facts import UNSTATED, Facts, HostFacts, Reading, Scope, seen
from doctor.facts.host import DiskSpace
from doctor.intake.devices import memory_of
from doctor.intake.environment import SCOPE

_FREE = re.compile(r"^[ \t]{1,40}total[ \t]{1,20}used[ \t]{1,20}free", re.MULTILINE)
_ROW = re.compile(r"^(Mem|Swap):[ \t]{1,30}(\S{1,20})((?:[ \t]{1,30}\S{1,20}){2,6})$", re.MULTILINE)
_SHM = re.compile(
    r"^\S{1,20}[ \t]{1,40}(\d[\d.]{0,12}[KMGT]?)[ \t][^\n]{1,80}[ \t]/dev/shm$", re.MULTILINE
)
_DF = re.compile(r"^Filesystem[ \t][^\n]{1,80}[ \t]Mounted on$", re.MULTILINE)
_DISK = re.compile(
    r"^(?!tmpfs|shm|udev|devtmpfs|none|efivarfs|overlay[ \t][^\n]{1,200}[ \t]/var/)\S{1,200}"
    r"(?:[ \t]{1,40}\d[\d.]{0,12}[KMGTP]?i?){2}[ \t]{1,40}(\d[\d.]{0,12}[KMGTP]?)i?[ \t]{1,40}"
    r"\d{1,3}%[ \t]{1,10}(/\S{0,200})$",
    re.MULTILINE,
)

MARKS = ("Mem: ", "Mounted on", "/dev/shm")  # noqa: S108 - a row of df


def looks_like(text: str) -> bool:
    """Tell by the header of free or of df, or by a row of df for shared memory."""
    return any(pattern.search(text) is not None for pattern in (_FREE, _SHM, _DF))


def parse(text: str) -> Facts:
    """Memory, swap and disk of the host; shared memory of the world that df was asked in."""
    rows = {row[1]: (row[2], row[3].split()) for row in list(_ROW.finditer(text))[:8]}
    total, others = rows.get("Mem", ("", []))
    available = others[-1] if len(others) == 5 else ""
    shm = _SHM.search(text)
    size = _mib(shm[1]) if shm else None
    scope = Scope(id=SCOPE, kind="venv", shm_mib=seen(size, "df")) if size else None
    return Facts(
        host=HostFacts(
            memory_mib=_reading(total),
            memory_available_mib=_reading(available),
            swap_mib=_reading(rows.get("Swap", ("", []))[0]),
            disk_free=_disk(text),
        ),
        scopes=(scope,) if scope else (),
    )


def _disk(text: str) -> Reading[tuple[DiskSpace, ...]]:
    """Free space by mount point; a single row stands for what the person looked at."""
    header = _DF.search(text)
    rows = islice(_DISK.finditer(text, header.end()), 200) if header else ()
    found = [DiskSpace(row[2], size) for row in rows if (size := _mib(row[1])) is not None]
    return seen(tuple(found), "df", partial=True) if found else UNSTATED


def _reading(text: str) -> Reading[int]:
    size = _mib(text)
    return UNSTATED if size is None else seen(size, "free")


def _mib(text: str) -> int | None:
    """A size with its unit, or KiB, which both tools print without one."""
    if text.isdecimal():
        return int(text[:18]) >> 10
    return 0 if text == "0B" else memory_of(text)
