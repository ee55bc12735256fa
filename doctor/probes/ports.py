"""Ports on which this host listens."""

from __future__ import annotations

import re
from dataclasses import replace

from doctor.facts import HostFacts, Reading, seen
from doctor.probes.files import relay
from doctor.probes.host import Host

_TABLES = ("/proc/net/tcp", "/proc/net/tcp6")
# local address, remote address, state 0A: listening.
_LISTENING = re.compile(
    r"^ *\d+: [0-9A-F]{8,32}:([0-9A-F]{4}) [0-9A-F]{8,32}:[0-9A-F]{4} 0A ", re.MULTILINE
)


def read(host: Host, facts: HostFacts) -> HostFacts:
    """Fill the ports of TCP that are taken."""
    return replace(facts, listening_ports=_read(host))


def _read(host: Host) -> Reading[tuple[int, ...]]:
    texts = [host.read_text(path) for path in _TABLES]
    if texts[0].value is None:
        return relay(texts[0])
    # A kernel without IPv6 has no second table.
    ports = {port for text in texts for port in parse_listening(text.value or "")}
    return seen(tuple(sorted(ports)), ", ".join(_TABLES))


def parse_listening(text: str) -> tuple[int, ...]:
    """Read /proc/net/tcp."""
    return tuple(int(port, 16) for port in _LISTENING.findall(text))
