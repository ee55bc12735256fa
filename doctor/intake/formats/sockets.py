"""`ss -ltn`, `netstat -ltn`, `lsof -i`: ports on which the host listens."""

from __future__ import annotations

import re
from itertools import islice

from doctor.facts import Facts, HostFacts, seen

AT = "listening sockets"
_ROW = re.compile(
    r"^(?:LISTEN[ \t]{1,40}\d{1,9}[ \t]{1,40}\d{1,9}[ \t]{1,40}|tcp6?[ \t]{1,40}\d{1,9}[ \t]{1,40}"
    r"\d{1,9}[ \t]{1,40}(?=[^\n]{1,200}\bLISTEN\b)|\S{1,40} [^\n]{1,100} TCP )"
    r"\S{0,60}:(\d{1,5})(?=[ \t])",
    re.MULTILINE,
)
MARKS = ("LISTEN",)


def looks_like(text: str) -> bool:
    """Tell by a row of a socket that listens."""
    return _ROW.search(text) is not None


def parse(text: str) -> Facts:
    """The ports that are taken; the list may have been cut by a filter."""
    ports = {int(row[1]) for row in islice(_ROW.finditer(text), 1000)}
    taken = tuple(sorted(port for port in ports if 0 < port < 1 << 16))
    if not taken:
        return Facts()
    return Facts(host=HostFacts(listening_ports=seen(taken, AT, partial=True)))
