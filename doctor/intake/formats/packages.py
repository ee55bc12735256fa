"""`dpkg -l`, `apt list`, `rpm -qa`, `dnf list`, `pacman`: packages of the system that matter."""

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
# `apt list --installed`, `dnf list installed`, `pacman -Qs`, each a form of its own.
_APT = re.compile(
    r"^([a-z0-9][a-z0-9+.-]{1,80})/[^ \t\n]{1,80} (\d[\w.+:~-]{0,80}) \w{2,10} "
    r"\[installed[^\]\n]{0,60}\]",
    re.MULTILINE,
)
_DNF = re.compile(
    r"^([A-Za-z][\w+.-]{1,80})\.(?:x86_64|aarch64|noarch)[ \t]{1,60}"
    r"(\d[\w.+~^:-]{0,80})[ \t]{1,60}@",
    re.MULTILINE,
)
_PACMAN = re.compile(
    r"^local/([a-z0-9][\w+.-]{1,60}) (\d[\w.+:]{0,40}-\d{1,3}(?:\.\d)?)(?=[ \n]|$)",
    re.MULTILINE,
)
_OTHERS = ((_RPM, "rpm -qa"), (_APT, "apt list"), (_DNF, "dnf list"), (_PACMAN, "pacman -Qs"))
MARKS = (
    *("\nii ", "\nhi ", ".x86_64\n", ".aarch64\n", ".noarch\n", ".x86_64 ", ".aarch64 "),
    *("[installed", "local/"),
)
# Arch Linux keeps the libraries in nvidia-utils.
_USERSPACE = re.compile(
    r"libnvidia-compute-\d+(?:-server)?|libcuda1|nvidia-driver-cuda-libs|nvidia-utils"
)
_MANAGER = re.compile(r"nvidia-fabric-?manager(?:-\d+)?")
_MAX = 8000


def looks_like(text: str) -> bool:
    """Tell by a row of one of the tools."""
    return any(form.search(text) is not None for form in (_DPKG, *(form for form, _ in _OTHERS)))


def parse(text: str) -> Facts:
    """Installed packages that matter, and those on hold; the list may have been filtered."""
    rows = [row for row in islice(_DPKG.finditer(text), _MAX) if matters(row[2])]
    listed = [SystemPackage(row[2], row[3]) for row in rows]
    held = tuple(row[2] for row in rows if row[1] == "h")
    at = AT
    for form, name in () if rows else _OTHERS:
        found = islice(form.finditer(text), _MAX)
        listed = [SystemPackage(row[1], row[2]) for row in found if matters(row[1])]
        at = name
        if listed:
            break
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
