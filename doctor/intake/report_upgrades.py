"""What a field report tells of automatic upgrades, and of what keeps packages in place."""

from __future__ import annotations

import re

from doctor.facts import UNSTATED, Reading, seen
from doctor.facts.host import AutomaticUpgrades, HeldPackages
from doctor.intake.report_packages import SortedPackages

_TOOLS = ("unattended-upgrades", "dnf-automatic", "yum-cron")
_SUBJECT = (
    r"(?:unattended[- ]upgrades?|dnf-automatic|yum-cron|"
    r"auto(?:matic(?:ally)?)?[- ]?(?:security |apt |system |driver )*(?:up(?:date|grade)s?))"
)
_OFF = re.compile(
    rf"\b(?:no|without|disabled|removed|turned off|stopped) {_SUBJECT}|{_SUBJECT}\b[^.;,\n]{{0,20}}"
    r"\b(?:off|disabled|removed|not|never|stopped|masked|purged)\b",
    re.IGNORECASE,
)
_ON = re.compile(
    rf"{_SUBJECT}\b[^.;,\n]{{0,20}}\b(?:on|enabled|active|installed|runs?|running|default)\b|"
    rf"\b(?:with|has|by|uses) {_SUBJECT}\b",
    re.IGNORECASE,
)
_NONE_HELD = re.compile(
    r"\b(?:no|none of the) (?:nvidia |driver |such )*packages? (?:is|are) (?:held|pinned|on hold|"
    r"locked)|"
    r"\bnothing (?:is|was) (?:held|pinned|on hold|locked)\b|\b(?:without|no) (?:a |"
    r"any )?(?:apt )?(?:hold|holds|"
    r"pin|pins|pinning|versionlock)\b|\bshowhold\b[^.;\n]{0,20}\b(?:empty|nothing|none)\b|"
    r"\b(?:driver|nvidia|packages?)\b[^.;\n]{0,20}\b(?:not|never) (?:been )?(?:held|pinned|"
    r"on hold|locked)\b|"
    r"\bapt-mark hold was (?:not|never)\b",
    re.IGNORECASE,
)
_HELD = re.compile(
    r"\b(?:nvidia|driver|cuda|packages?)\b[^.;\n]{0,40}\b(?:held|pinned|on hold|versionlocked)\b|"
    r"\bapt-mark hold\b|\bversionlock\b|\bunattended-upgrades?\b[^.;\n]{0,30}\bblacklist",
    re.IGNORECASE,
)
# Of what is told as held, no package of the driver is left out.
_DRIVER = ("*nvidia*", "libcuda1*", "cuda-drivers*")


def automatic_upgrades(
    packages: SortedPackages, notes: tuple[str, ...]
) -> Reading[AutomaticUpgrades]:
    """Whether upgrades come by themselves, by a note or by the package that brings them."""
    if any(map(_OFF.search, notes)):
        return seen(AutomaticUpgrades(enabled=False), "notes")
    tool = next((p.name for p in packages.host if p.name in _TOOLS), "")
    if any(map(_ON.search, notes)):
        return seen(AutomaticUpgrades(enabled=True, tool=tool), "notes")
    return seen(AutomaticUpgrades(enabled=True, tool=tool), "packages") if tool else UNSTATED


def held_packages(notes: tuple[str, ...]) -> Reading[HeldPackages]:
    """Whether the driver is held, where a note tells of it."""
    if any(map(_NONE_HELD.search, notes)):
        return seen(HeldPackages(), "notes", partial=True)
    told = any(map(_HELD.search, notes))
    return seen(HeldPackages(holds=_DRIVER), "notes", partial=True) if told else UNSTATED
