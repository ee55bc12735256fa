"""Pasted text before any reader sees it."""

from __future__ import annotations

import re

_ESCAPES = re.compile(r"\x1b(?:\[[0-9;?]{0,16}[@-~]|[@-Z\\^_])")


def plain(text: str) -> str:
    """The text without terminal escapes, carriage returns and byte order mark."""
    if "\x1b" in text:
        text = _ESCAPES.sub("", text)
    return text.replace("\r\n", "\n").removeprefix("\ufeff")
