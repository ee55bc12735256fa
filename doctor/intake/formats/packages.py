"""`dpkg -l`, `apt list`, `rpm -qa`, `dnf list`, `pacman`: packages of the system that matter."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice

from doctor.facts import UNSTATED, Facts, HostFacts, NvidiaFacts, Version, seen
from doctor.facts.accelerators import FabricManager
from doctor.facts.host import HeldPackages, SystemPackage
from doctor.intake.stated import driver_version
from doctor.probes.packages import matters
from doctor.probes.tool_text import reading

_DPKG = re.compile(
    r"^(?P<state>[ih])i[ \t]{1,4}(?P<name>[a-z0-9][a-z0-9+.-]{1,80})(?::[a-z0-9]{1,10})?"
    r"[ \t]{1,99}(?P<version>\d[\w.+:~-]{0,80})[ \t]",
    re.MULTILINE,
)
_RPM = re.compile(
    r"^(?P<name>[A-Za-z][\w+.-]{1,80}?)-(?P<version>\d[\w.+~^]{0,40}-[\w.+~^]{1,40})"
    r"\.(?:x86_64|aarch64|noarch)$",
    re.MULTILINE,
)
# `apt list --installed`, `dnf list installed`, `pacman -Qs`, each a form of its own.
_APT = re.compile(
    r"^(?P<name>[a-z0-9][a-z0-9+.-]{1,80})/[^ \t\n]{1,80} (?P<version>\d[\w.+:~-]{0,80}) \w{2,10} "
    r"\[installed[^\]\n]{0,60}\]",
    re.MULTILINE,
)
_DNF = re.compile(
    r"^(?P<name>[A-Za-z][\w+.-]{1,80})\.(?:x86_64|aarch64|noarch)[ \t]{1,60}"
    r"(?P<version>\d[\w.+~^:-]{0,80})[ \t]{1,60}@",
    re.MULTILINE,
)
_PACMAN = re.compile(
    r"^local/(?P<name>[a-z0-9][\w+.-]{1,60}) "
    r"(?P<version>\d[\w.+:]{0,40}-\d{1,3}(?:\.\d)?)(?=\s|$)",
    re.MULTILINE,
)
_ARCHES = (".x86_64", ".aarch64", ".noarch")
# Each form with its tool, and the marks without which none of its rows is there.
_FORMS = (
    (_DPKG, "dpkg -l", ("ii ", "hi ")),
    (_RPM, "rpm -qa", tuple(f"{arch}\n" for arch in _ARCHES)),
    (_APT, "apt list", ("[installed",)),
    (_DNF, "dnf list", tuple(f"{arch} " for arch in _ARCHES)),
    (_PACMAN, "pacman -Qs", ("local/",)),
)
MARKS = ("\nii ", "\nhi ", *(mark for _, _, marks in _FORMS[1:] for mark in marks))
# Arch Linux keeps the libraries in nvidia-utils.
_USERSPACE = re.compile(
    r"libnvidia-compute-\d+(?:-server)?|libcuda1|nvidia-driver-cuda-libs|nvidia-utils"
)
_MANAGER = re.compile(r"nvidia-fabric-?manager(?:-\d+)?")
_MAX = 8000


def looks_like(text: str) -> bool:
    """Tell by a row of one of the tools."""
    return any(form.search(text) is not None for form, _ in _forms(text))


def _forms(text: str) -> Iterator[tuple[re.Pattern[str], str]]:
    return ((form, at) for form, at, marks in _FORMS if any(mark in text for mark in marks))


def parse(text: str) -> Facts:
    """Installed packages that matter, and those on hold; the list may have been filtered."""
    listed: list[SystemPackage] = []
    held: tuple[str, ...] = ()
    at = ""
    for form, tool in _forms(text):
        rows = [row for row in islice(form.finditer(text), _MAX) if matters(row["name"])]
        if rows:
            at, listed = tool, [SystemPackage(row["name"], row["version"]) for row in rows]
            held = tuple(row["name"] for row in rows if row.groupdict().get("state") == "h")
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
