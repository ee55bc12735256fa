"""`ldd --version`, `getconf GNU_LIBC_VERSION`: the C library of the world that it was asked in."""

from __future__ import annotations

import re
from dataclasses import replace

from doctor.facts import Facts, HostFacts, Libc, Scope, Version, seen
from doctor.intake.environment import SCOPE

AT = "ldd --version"
_GLIBC = re.compile(
    r"^(?:ldd \([^)\n]{1,80}\)|glibc) (\d{1,3}\.\d{1,3})(?:[ \t]*$|(?=[ \t]*\n))", re.MULTILINE
)
_MUSL = re.compile(r"^musl libc[^\n]{0,40}\nVersion (\d{1,3}\.\d[\d.]{0,9})", re.MULTILINE)
MARKS = ("ldd (", "musl libc", "glibc ")


def looks_like(text: str) -> bool:
    """Tell by the first line of either library."""
    return _GLIBC.search(text) is not None or _MUSL.search(text) is not None


def parse(text: str) -> Facts:
    """The library, of the host and of the environment beside it."""
    glibc, musl = _GLIBC.search(text), _MUSL.search(text)
    match = glibc or musl
    if match is None:
        return Facts()
    version = Version(match[1].rstrip("."))
    facts = Facts(host=HostFacts(libc=seen(Libc("glibc" if glibc else "musl", version), AT)))
    if musl:
        return facts
    return replace(facts, scopes=(Scope(id=SCOPE, kind="venv", libc=seen(version, AT)),))
