"""Colours and words of the reports for a terminal; every colour stands beside a word."""

from __future__ import annotations

from doctor.findings import Verdict
from doctor.report import Style

_CODES = {"red": "31", "yellow": "33", "green": "32", "dim": "2", "bold": "1", "cyan": "36"}
# State of a rung or severity of a finding → word and colour.
STATES = {"error": ("FAIL", "red"), "warning": ("warn", "yellow"), "info": ("note", "cyan")}
VERDICTS = {
    Verdict.FAIL: ("FAIL", "red", "bold"),
    Verdict.PASS: ("pass", "green", "bold"),
    Verdict.CANNOT_TELL: ("cannot tell", "yellow", "bold"),
    Verdict.NOTHING_TO_JUDGE: ("nothing to judge", "bold"),
}


def paint(style: Style, text: str, *names: str) -> str:
    """The text in these colours, or as it is where the style has none."""
    if not style.colour or not names:
        return text
    return f"\x1b[{';'.join(_CODES[name] for name in names)}m{text}\x1b[0m"
