"""What keeps the driver where it is: preferences, and a list for automatic upgrades. Pure.

Measured with apt 2.6: a pin below 1000 never brings an older version back, 1001 does; a hold
beats a pin; some names held and some not let the rest of the set move.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import groupby

from doctor.provision.driver.sets import Package, upstream

PREFERENCES = "/etc/apt/preferences.d/doctor-driver"
BLACKLIST = "/etc/apt/apt.conf.d/52doctor-driver"
NOUVEAU = "/etc/modprobe.d/doctor-nouveau.conf"
PRIORITY = 1001
MANAGED = (PREFERENCES, BLACKLIST, NOUVEAU)
# Not doctor's own: merged into, and brought back on the way back.
DAEMON = "/etc/docker/daemon.json"
_HEAD = "Written by doctor: the driver moves as one set, and only when it is asked to."
NOUVEAU_TEXT = f"# {_HEAD}\nblacklist nouveau\noptions nouveau modeset=0\n"


def preferences_text(packages: Sequence[Package]) -> str:
    """apt_preferences that allow each package one version, be it newer or older."""
    stanzas = [f"# {_HEAD}"]
    ordered = sorted(packages, key=lambda package: (package.version, package.name))
    for version, group in groupby(ordered, key=lambda package: package.version):
        names = " ".join(package.name for package in group)
        stanzas.append(f"Package: {names}\nPin: version {version}\nPin-Priority: {PRIORITY}")
    return "\n\n".join([f"{stanzas[0]}\n{stanzas[1]}", *stanzas[2:]]) + "\n"


def pins_at(version: str, offers: Sequence[Package]) -> str:
    """Preferences for all that is offered of a driver; apt takes the newest of what none names."""
    rows = [package for package in offers if upstream(package.version) == version]
    return preferences_text(rows) if rows else ""


def blacklist_text(names: Sequence[str]) -> str:
    """unattended-upgrades' list of regular expressions, one for each name and no other.

    apt gives a backslash a meaning of its own, so dots and pluses go into brackets.
    """
    plain = (re.sub(r"([.+])", r"[\1]", name) for name in sorted(names))
    rows = "".join(f'  "^{name}$";\n' for name in plain)
    return f"// {_HEAD}\nUnattended-Upgrade::Package-Blacklist {{\n{rows}}};\n"
