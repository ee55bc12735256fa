"""The few TOML settings that matter here, read line by line: Python 3.9 has no TOML reader."""

from __future__ import annotations

import re

_SECTION = re.compile(r"^\[+\s*([^\[\]]{1,300}?)\s*\]+\s*(?:#.*)?$")
_SETTING = re.compile(r"""^([\w."'-]{1,200})\s*=\s*(?:"([^"]*)"|'([^']*)'|([^#]*?))\s*(?:#.*)?$""")


def flatten_toml(text: str) -> dict[str, str]:
    """Settings by dotted name ("section.key"), values as text without their quotes.

    Lists and texts over several lines are not read.
    """
    found: dict[str, str] = {}
    section = ""
    for raw in text.splitlines():
        line = raw.strip()[:4096]
        header = _SECTION.match(line)
        setting = _SETTING.match(line)
        if header:
            section = header[1].replace('"', "").replace("'", "") + "."
        elif setting:
            value = next((v for v in setting.groups()[1:] if v is not None), "")
            found[section + setting[1].strip("\"'")] = value
    return found
