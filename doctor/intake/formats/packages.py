"""`dpkg -l`, `rpm -qa`, `apt-mark showhold`: packages of the distribution that matter here."""

from __future__ import annotations

import re
from itertools import islice

from doctor.facts import UNSTATED, Facts, HostFacts, NvidiaFacts, Version, seen
from doctor.facts.accelerators import FabricManager
from doctor.facts.host import HeldPackages, SystemPackage
from doctor.intake.stated import driver_version
from doctor.probes.packages import matters
from doctor.probes.tool_text import reading

AT = "dpkg -l"
_DPKG = re.compile(
    r"^([ih])i[ \t]{1,4}([a-z0-9][a-z0-9+.-]{1,80})(?::[a-z0-9]{1,10})?[ \t]{1,99}"
    r"(\d[\w.+:~-]{0,80})[ \t]",
    re.MULTILINE,
)
_RPM = re.compile(
    r"^([A-Za-z][\w+.-]{1,80}?)-(\d[\w.+~^]{0,40}-[\w.+~^]{1,40})\.(?:x86_64|aarch64|noarch)$",
    re.MULTILINE,
)
RPM_MARKS = (".x86_64\n", ".aarch64\n", ".noarch\n")
_USERSPACE = re.compile(r"libnvidia-compute-\d+(?:-server)?|libcuda1|nvidia-driver-cuda-libs")
_MANAGER = re.compile(r"nvidia-fabric-?manager(?:-\d+)?")
_MAX = 8000


def looks_like(text: str) -> bool:
    """Tell by a row of either tool."""
    return _DPKG.search(text) is not None or _RPM.search(text) is not None


def parse(text: str) -> Facts:
    """Installed packages that matter, and those on hold; the list may have been filtered."""
    rows = [row for row in islice(_DPKG.finditer(text), _MAX) if matters(row[2])]
    listed = [SystemPackage(row[2], row[3]) for row in rows]
    held = tuple(row[2] for row in rows if row[1] == "h")
    at = AT
    if not rows:
        at = "rpm -qa"
        found = islice(_RPM.finditer(text), _MAX)
        listed = [SystemPackage(row[1], row[2]) for row in found if matters(row[1])]
    return Facts(
        nvidia=_nvidia(listed, at),
        host=HostFacts(
            packages=seen(tuple(listed), at, partial=True) if listed else UNSTATED,
            held_packages=seen(HeldPackages(holds=held), at) if held else UNSTATED,
        ),
    )


def _nvidia(listed: list[SystemPackage], at: str) -> NvidiaFacts:
    """Versions of the driver's libraries and of the fabric manager, as their packages tell."""
    return NvidiaFacts(
        userspace=reading(_version(listed, _USERSPACE), at),
        fabric_manager=FabricManager(version=reading(_version(listed, _MANAGER), at)),
    )


def _version(listed: list[SystemPackage], names: re.Pattern[str]) -> Version | None:
    """The version that all packages of a kind share, without epoch and revision."""
    found = [p.version for p in listed if names.fullmatch(p.name)]
    plain = {re.sub(r"^\d+:|[-~+].*$", "", text) for text in found}
    return driver_version(plain.pop()) if len(plain) == 1 else None
