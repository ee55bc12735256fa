"""A driver that is brought to a Jetson and made for other machines."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.findings import Evidence, Remedy
from doctor.matrix import Matrix
from doctor.rules.engine import Case, Fault, NotApplicable, Rule, Severity, rule
from doctor.rules.framework import is_jetson

_DRIVER = re.compile(
    r"nvidia-(?:driver|headless|dkms|kernel|utils)-\S*|cuda-drivers\S*|libnvidia-compute-\S*"
)
_L4T = "https://docs.nvidia.com/jetson/archives/"


@rule("HST205", cause="jetson-specific", severity=Severity.ERROR)
def desktop_driver_on_jetson(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """Packages of the driver for desktop and server cards are installed on a Jetson.

    What: packages of the distribution, on a Jetson.
    Why: the driver of a Jetson is part of its system (L4T) and is not a PCI driver; the other
        one finds no card, and its libraries hide those of the system.
    How to fix: remove the packages, and install the packages of the JetPack again.
    Silent when: the host is no Jetson, or no such package is named.
    Sources: NVIDIA Jetson Linux Developer Guide.
    """
    if not is_jetson(case, matrix):
        raise NotApplicable("not a Jetson")
    reading = case.facts.host.packages
    names = [p.name for p in reading.known("host.packages") if _DRIVER.fullmatch(p.name)]
    if names:
        yield Fault(
            f"{names[0]} is installed on a Jetson, whose driver is part of its system",
            evidence=(Evidence(f"installed: {', '.join(names[:4])}", reading.at),),
            remedies=(
                Remedy(
                    "remove it, and install the libraries of the JetPack again",
                    (
                        f"sudo apt-get purge {names[0]}",
                        "sudo apt-get install --reinstall nvidia-l4t-core nvidia-l4t-cuda",
                    ),
                ),
            ),
            sources=(_L4T,),
        )


RULES: tuple[Rule, ...] = (desktop_driver_on_jetson,)
