"""`cat /etc/nv_tegra_release`: a Jetson with its release of Linux."""

from __future__ import annotations

from doctor.facts import Facts, HostFacts, seen
from doctor.probes.platform import parse_l4t
from doctor.probes.tool_text import LIMIT


def looks_like(text: str) -> bool:
    """Tell by the line's form."""
    return parse_l4t(text[:LIMIT]).is_known


def parse(text: str) -> Facts:
    """The release, and what every Jetson is."""
    release = parse_l4t(text[:LIMIT])
    if not release.is_known:
        return Facts()
    return Facts(
        host=HostFacts(
            l4t=release, platform=seen("jetson", release.at), arch=seen("aarch64", release.at)
        )
    )
