"""`pip freeze`, and rows of `pip list` without their header: lists with no heading of their own."""

from __future__ import annotations

import re
from itertools import islice

from doctor.facts import Facts, Package
from doctor.intake.environment import environment, package
from doctor.intake.formats.pip_list import SHORT
from doctor.probes.tool_text import lines

AT = "pip freeze"
_PINNED = re.compile(
    r"([A-Za-z0-9][\w.-]{0,99})(?:\[[\w,.-]{0,99}\])?==(v?\d[\w.!+-]{0,60})(?:\s{0,9}[;#].{0,400})?"
)
_LOCATED = re.compile(r"([A-Za-z0-9][\w.-]{0,99}) @ (?:file|git\+|https?):.{0,400}|-e .{1,400}")
_ASKED = re.compile(
    r"[^\n]{0,80}[$#>] (?:sudo )?(?:(?:python[\d.]{0,5} -m |uv )?pip[\d.]{0,5} (?:freeze|list)"
    r"|(?:conda|mamba) list|cat \S{0,200}requirements\S{0,80})[^\n]{0,200}"
)
_ROW = re.compile(r"([A-Za-z][\w.-]{1,99}) {2,99}(v?\d{1,9}\.\d[\w.!+-]{0,60})")


def looks_like(text: str) -> bool:
    """Tell by lines of which nearly all are pins, or all are rows of name and version.

    One is enough below the command that lists them.
    """
    least = 1 if _ASKED.match(text.lstrip()) else 3
    return len(_pins(text)) >= least or len(_bare_rows(text)) >= min(least, 2)


def parse(text: str) -> Facts:
    """The distributions with the versions printed."""
    found = _pins(text) or _bare_rows(text)
    return environment(found, AT, partial=len(found) < SHORT) if found else Facts()


def _pins(text: str) -> list[Package]:
    """Lines of pins, if nearly all lines are some."""
    if "==" not in text:
        return []
    listed = _stripped(text)
    found = [match for line in listed if (match := _PINNED.fullmatch(line))]
    located = sum(_LOCATED.fullmatch(line) is not None for line in listed)
    whole = len(found) + located >= 0.8 * len(listed)
    return [package(match[1], match[2]) for match in found] if whole else []


def _bare_rows(text: str) -> list[Package]:
    """Rows of a list without its header, as `pip list | grep` leaves them."""
    listed = _stripped(text)
    rows = [_ROW.fullmatch(line) for line in listed]
    found = [row for row in rows if row is not None]
    return [package(row[1], row[2]) for row in found] if len(found) == len(listed) else []


def _stripped(text: str) -> list[str]:
    """Lines that are neither blank nor comments, if there are not too many for a list."""
    listed = [line.strip()[:600] for line in islice(lines(text[: 48 << 10]), 1500)]
    if listed and _ASKED.fullmatch(listed[0]):
        listed = listed[1:]
    return [line for line in listed if line and not line.startswith(("#", "--", "WARNING:"))]
